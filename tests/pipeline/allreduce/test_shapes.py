"""Trees over workers: what holds for every number of them. Small ones are drawn by hand."""

import pytest

from pipeline.allreduce.shapes import Tree, chain, double_binary, multicolor, over_nodes

COUNTS = range(2, 65)
COLORS = range(2, 9)


def way_to_root(tree: Tree, member: int) -> list[int]:
    way = [member]
    while (parent := tree.parents[way[-1]]) is not None:
        way.append(parent)
        assert len(way) <= len(tree.parents), "goes in a circle"
    return way


def test_a_tree_knows_its_root_children_interior_sizes_levels_and_depth() -> None:
    #       2
    #      / \
    #     0   4
    #    / \
    #   1   3
    tree = Tree((2, 0, None, 0, 2))
    assert tree.root == 2
    assert [tree.children(member) for member in range(5)] == [(1, 3), (), (0, 4), (), ()]
    assert tree.interior == {0, 2}
    assert tree.sizes == (3, 1, 5, 1, 1)
    assert tree.levels == (1, 2, 0, 2, 1)
    assert tree.depth == 2


@pytest.mark.parametrize(
    ("parents", "reason"),
    [
        ((), "one root"),
        ((None, None), "one root"),
        ((1, 0), "one root"),
        ((None, 2, 1), "2 members are not connected"),
        ((None, 1), "1 members are not connected"),
        ((None, 2), "members are 0 to 1"),
        ((None, -1), "members are 0 to 1"),
    ],
)
def test_what_is_no_tree_is_refused(parents: tuple[int | None, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Tree(parents)


def test_a_chain_is_a_line_from_its_first_member() -> None:
    assert chain(1).parents == (None,)
    assert chain(4).parents == (None, 0, 1, 2)
    assert chain(4).depth == 3


def test_a_chain_of_thousands_is_no_deeper_than_python_can_follow() -> None:
    assert chain(5000).depth == 4999
    assert chain(5000).sizes[0] == 5000


def test_double_binary_trees_of_six_are_mirror_images() -> None:
    #         3                 2
    #       /   \             /   \
    #      1     5           4     0
    #     / \   /           / \     \
    #    0   2 4           5   3     1
    assert double_binary(6)[0].parents == (1, 3, 1, None, 5, 3)
    assert double_binary(6)[1].parents == (2, 0, None, 4, 2, 4)


def test_double_binary_trees_of_five_are_shifted_by_one() -> None:
    #         3                 4
    #       /   \             /   \
    #      1     4           2     0
    #     / \               / \
    #    0   2             1   3
    assert double_binary(5)[0].parents == (1, 3, 1, None, 3)
    assert double_binary(5)[1].parents == (4, 2, 4, 2, None)


@pytest.mark.parametrize("count", [*COUNTS, 544, 1023, 2176])
def test_no_member_is_interior_in_both_binary_trees(count: int) -> None:
    first, second = double_binary(count)
    assert not first.interior & second.interior


@pytest.mark.parametrize("count", [*COUNTS, 544, 1023, 2176])
def test_binary_trees_span_all_members_with_two_children_at_most_and_logarithmic_depth(count: int) -> None:
    for tree in double_binary(count):
        assert len(tree.parents) == count
        assert {way_to_root(tree, member)[-1] for member in range(count)} == {tree.root}
        assert max(len(tree.children(member)) for member in range(count)) <= 2
        assert 2**tree.depth <= count


def test_one_member_is_a_tree_of_every_kind() -> None:
    alone = Tree((None,))
    assert double_binary(1) == (alone, alone)
    assert multicolor(1, 4) == (alone,)
    assert alone.depth == 0
    assert alone.interior == frozenset()


def test_four_colors_on_sixteen_nodes_are_the_four_trees_of_the_paper() -> None:
    trees = multicolor(16, 4)
    for color, tree in enumerate(trees):
        for place in range(1, 16):
            assert tree.parents[(place + 4 * color) % 16] == ((place - 1) // 4 + 4 * color) % 16
        assert tree.root == 4 * color


@pytest.mark.parametrize("colors", COLORS)
def test_no_member_is_interior_in_two_colors(colors: int) -> None:
    for count in COUNTS:
        interiors = [tree.interior for tree in multicolor(count, colors)]
        assert sum(map(len, interiors)) == len(frozenset().union(*interiors)), count


@pytest.mark.parametrize("colors", COLORS)
def test_a_color_has_its_interior_in_its_own_share_of_the_members(colors: int) -> None:
    for count in COUNTS:
        k = min(colors, count)
        for color, tree in enumerate(multicolor(count, colors)):
            assert tree.interior <= set(range(color * count // k, (color + 1) * count // k)), count


@pytest.mark.parametrize("colors", COLORS)
def test_every_color_spans_all_members_without_a_circle(colors: int) -> None:
    for count in COUNTS:
        trees = multicolor(count, colors)
        assert len(trees) == min(colors, count)
        for tree in trees:
            assert len(tree.parents) == count
            assert {way_to_root(tree, member)[-1] for member in range(count)} == {tree.root}


@pytest.mark.parametrize("colors", COLORS)
def test_colors_have_as_many_children_as_there_are_colors_wherever_that_keeps_them_apart(colors: int) -> None:
    for count in range(colors + 1, 65):
        widest = max(len(tree.children(member)) for tree in multicolor(count, colors) for member in range(count))
        if count % colors in (0, 1):
            assert widest == colors, count
        else:
            # One child fewer a member needs an interior member more than the smallest share has.
            assert -(-(count - 1) // widest) <= count // colors < -(-(count - 1) // (widest - 1)), count


def test_workers_of_a_node_hang_off_its_entry_in_cyclic_order() -> None:
    tree = over_nodes(chain(2), [[0, 1, 2], [3, 4, 5]], entry=1)
    assert tree.parents == (2, None, 1, 5, 1, 4)


def test_nodes_may_differ_in_size_and_ranks_may_be_dealt_in_any_order() -> None:
    tree = over_nodes(chain(3), [[0, 2, 4], [1], [3, 5]], entry=2)
    assert tree.root == 4
    assert tree.parents == (4, 4, 0, 1, None, 3)


@pytest.mark.parametrize("entry", range(5))
def test_each_node_but_the_root_is_entered_once(entry: int) -> None:
    members = [[4 * node + worker for worker in range(4)] for node in range(9)]
    for nodes in (*multicolor(9, 4), *double_binary(9)):
        tree = over_nodes(nodes, members, entry)
        crossings = {(rank // 4, parent // 4) for rank, parent in enumerate(tree.parents) if parent is not None}
        crossings = {(node, parent) for node, parent in crossings if node != parent}
        assert crossings == {(node, parent) for node, parent in enumerate(nodes.parents) if parent is not None}


@pytest.mark.parametrize(
    "members", [[[0, 1]], [[0, 1], []], [[0, 1], [1]], [[0, 1], [3]]], ids=["a node", "a worker", "twice", "a gap"]
)
def test_workers_that_do_not_fill_the_nodes_are_refused(members: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="node"):
        over_nodes(chain(2), members, entry=0)


def test_no_members_and_no_colors_are_refused() -> None:
    for nothing in (lambda: chain(0), lambda: double_binary(0), lambda: multicolor(0, 4), lambda: multicolor(4, 0)):
        with pytest.raises(ValueError, match="at least one"):
            nothing()
