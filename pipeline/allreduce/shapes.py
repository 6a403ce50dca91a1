"""Shapes of trees and chains that gradients travel along: who adds whose, and who passes the sum on to whom.

A `Tree` says only who is whose parent. The sum goes up to the root and the average down again. Torch-free: the
all-reduces and the estimate of what they take use the same shapes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise


@dataclass(frozen=True)
class Tree:
    """A rooted tree over members 0 … count-1.

    Raises ValueError where `parents` is no tree over all members: none or several roots, a circle, an unknown parent.
    """

    parents: tuple[int | None, ...]
    """Each member's parent, by member; None for the root."""

    def __post_init__(self) -> None:
        if self.parents.count(None) != 1:
            raise ValueError(f"a tree has one root, not {self.parents.count(None)}")
        if len(self._top_down) != len(self.parents):
            raise ValueError(f"{len(self.parents) - len(self._top_down)} members are not connected to the root")

    @cached_property
    def root(self) -> int:
        """The member without a parent."""
        return self.parents.index(None)

    def children(self, member: int) -> tuple[int, ...]:
        """The members whose parent is `member`, ascending."""
        return self._children[member]

    @cached_property
    def interior(self) -> frozenset[int]:
        """The members that have children."""
        return frozenset(member for member, children in enumerate(self._children) if children)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """By member: how many members its subtree has, itself included."""
        sizes = [1] * len(self.parents)
        for member in reversed(self._top_down):
            parent = self.parents[member]
            if parent is not None:
                sizes[parent] += sizes[member]
        return tuple(sizes)

    @cached_property
    def depth(self) -> int:
        """The longest way from the root to a member, in hops: 0 for a tree of one."""
        return max(self.levels)

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """By member: how many hops it is away from the root."""
        levels = [0] * len(self.parents)
        for member in self._top_down:
            parent = self.parents[member]
            if parent is not None:
                levels[member] = levels[parent] + 1
        return tuple(levels)

    @cached_property
    def _children(self) -> tuple[tuple[int, ...], ...]:
        children: list[list[int]] = [[] for _ in self.parents]
        for member, parent in enumerate(self.parents):
            if parent is not None:
                if not 0 <= parent < len(self.parents):
                    raise ValueError(f"member {member} has the parent {parent}; members are 0 to {len(children) - 1}")
                children[parent].append(member)
        return tuple(map(tuple, children))

    @cached_property
    def _top_down(self) -> tuple[int, ...]:
        """Members that the root reaches, parents before children."""
        order = [self.root]
        for member in order:
            order.extend(self._children[member])
        return tuple(order)


def chain(count: int) -> Tree:
    """Members in a line; 0 is the root and each other one's parent stands before it. ValueError for no members."""
    _check_count(count)
    return Tree((None, *range(count - 1)))


def double_binary(count: int) -> tuple[Tree, Tree]:
    """Two binary trees of depth log2(count) in which no member is interior twice. ValueError for no members.

    Each carries half of the data, so that every member sends and receives about as much as every other (Sanders, Speck
    and Träff 2009, doi 10.1016/j.parco.2009.09.001; NCCL since 2.4). Members counted from 1, the first is the in-order
    tree in which a number's level is its lowest set bit: even members are interior, odd ones leaves. The second is its
    mirror image where `count` is even and the first shifted by one where it is odd, which makes odd members interior.
    """
    _check_count(count)
    first = tuple(_in_order_parent(number, count) for number in range(1, count + 1))

    def twin(member: int) -> int:
        return count - 1 - member if count % 2 == 0 else (member + 1) % count

    return Tree(first), _renamed(first, [twin(member) for member in range(count)])


def multicolor(count: int, colors: int) -> tuple[Tree, ...]:
    """k = min(colors, count) trees in which no member is interior twice; each carries 1/k of the data.

    Tree c is a heap, parent(i) = (i-1) // arity, laid on the members rotated by c * count // k. The arity is the
    smallest for which the tree's interior lies within its color's share of the members, from c * count // k up to
    (c+1) * count // k: it is k where count mod k is 0 or 1, more elsewhere. Kumar et al. 2017 (arXiv 1711.00705) have
    k-ary trees for four colors and powers of two.

    Raises ValueError for no members and for no colors.
    """
    _check_count(count)
    if colors < 1:
        raise ValueError(f"trees come in at least one color, not {colors}")
    k = min(colors, count)
    arity = max(1, -(-(count - 1) // (count // k)))  # a heap has ceil((count-1)/arity) interior members
    heap = (None, *((place - 1) // arity for place in range(1, count)))
    starts = (color * count // k for color in range(k))
    return tuple(_renamed(heap, [(start + place) % count for place in range(count)]) for start in starts)


def over_nodes(tree: Tree, members: Sequence[Sequence[int]], entry: int) -> Tree:
    """The tree over all workers that crosses between nodes as `tree`, whose members are nodes, does.

    members: by node, its workers' global ranks; nodes may differ in size. entry: which worker of a node, modulo how
    many it has, takes the node's place in `tree`; its others hang off it as a chain, in cyclic order after it.

    Raises ValueError where `members` does not hold a node for each member of `tree`, or each rank once.
    """
    if len(members) != len(tree.parents):
        raise ValueError(f"the tree is over {len(tree.parents)} nodes, the workers are on {len(members)}")
    count = sum(map(len, members))
    if not all(members) or sorted(rank for node in members for rank in node) != list(range(count)):
        raise ValueError(f"each rank from 0 to {count - 1} is on one node, and no node is empty")
    entries = [node[entry % len(node)] for node in members]
    parents: list[int | None] = [None] * count
    for place, (node, parent) in enumerate(zip(members, tree.parents, strict=True)):
        cyclic = [node[(entry + step) % len(node)] for step in range(len(node))]
        parents[entries[place]] = None if parent is None else entries[parent]
        for before, after in pairwise(cyclic):
            parents[after] = before
    return Tree(tuple(parents))


def _in_order_parent(number: int, count: int) -> int | None:
    """The parent of the member `number`, counted from 1, as a member counted from 0.

    An ancestor one level up has the next higher bit as its lowest; ancestors beyond `count` are passed over.
    """
    bit = 2 * (number & -number)
    while bit <= count:
        ancestor = (number & -2 * bit) | bit
        if ancestor <= count:
            return ancestor - 1
        bit *= 2
    return None


def _renamed(parents: Sequence[int | None], names: Sequence[int]) -> Tree:
    """The tree in which member m is called names[m]."""
    renamed: list[int | None] = [None] * len(parents)
    for member, parent in enumerate(parents):
        renamed[names[member]] = None if parent is None else names[parent]
    return Tree(tuple(renamed))


def _check_count(count: int) -> None:
    if count < 1:
        raise ValueError(f"a tree has at least one member, not {count}")
