/* delay_wire NETNS_A DEVICE_A NETNS_B DEVICE_B DELAY_NS: a full-duplex wire between two network namespaces.
 *
 * It makes a tap device at each end. A frame that one device sends reaches the other DELAY_NS nanoseconds later, in order;
 * how many frames are under way does not matter. NETNS_* are paths of namespaces, as /proc/PID/ns/net. The command ends when
 * both devices exist; the wire stays in the background until it is killed, and the devices go with it. A queueing discipline on each device sets
 * the rate. For kernels without netem, which does the same where it exists.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL
#define LARGEST_FRAME 65536
#define FRAMES_A_TURN 64 /* read from one side before the other is looked after */

struct frame {
    struct frame *next;
    int64_t due_ns;
    size_t length;
    char bytes[];
};

/* One direction: frames in the order in which they came, which is the order in which they are due. */
struct direction {
    int from, to;
    struct frame *first, **end;
};

static void fail(const char *what)
{
    fprintf(stderr, "delay_wire: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static int open_tap(const char *netns, const char *device)
{
    int namespace = open(netns, O_RDONLY | O_CLOEXEC);
    if (namespace < 0 || setns(namespace, CLONE_NEWNET) < 0)
        fail(netns);
    close(namespace);
    int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tap < 0)
        fail("/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    strncpy(request.ifr_name, device, IFNAMSIZ - 1);
    if (ioctl(tap, TUNSETIFF, &request) < 0)
        fail(device);
    return tap;
}

static void take_in(struct direction *way, int64_t delay_ns)
{
    static char bytes[LARGEST_FRAME];
    for (int taken = 0; taken < FRAMES_A_TURN; taken++) {
        ssize_t length = read(way->from, bytes, sizeof bytes);
        if (length <= 0)
            return; /* nothing there, or the device is down */
        struct frame *frame = malloc(sizeof *frame + length);
        if (frame == NULL)
            fail("memory for a frame");
        *frame = (struct frame){.due_ns = now_ns() + delay_ns, .length = length};
        memcpy(frame->bytes, bytes, length);
        *way->end = frame;
        way->end = &frame->next;
    }
}

/* Deliver what is due; returns when the next frame is, or a second from now. */
static int64_t deliver(struct direction *way)
{
    int64_t now = now_ns();
    while (way->first != NULL && way->first->due_ns <= now) {
        struct frame *frame = way->first;
        if (write(way->to, frame->bytes, frame->length) < 0 && errno != EIO && errno != EAGAIN && errno != EINVAL)
            fail("write"); /* EIO: a device that is not up yet loses the frame, as a wire would */
        way->first = frame->next;
        if (way->first == NULL)
            way->end = &way->first;
        free(frame);
    }
    return way->first != NULL ? way->first->due_ns : now + SECOND_NS;
}

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "usage: delay_wire NETNS_A DEVICE_A NETNS_B DEVICE_B DELAY_NS\n");
        return 2;
    }
    int64_t delay_ns = atoll(words[5]);
    prctl(PR_SET_TIMERSLACK, 1); /* ns; the default of 50 us is as long as many a delay */
    int a = open_tap(words[1], words[2]), b = open_tap(words[3], words[4]);
    struct direction there = {.from = a, .to = b, .end = &there.first}, back = {.from = b, .to = a, .end = &back.first};
    if (daemon(0, 0) < 0)
        fail("daemon");
    /* A wire is on time however busy the processors are; without the right to ask for that it is late under load. */
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
    for (;;) {
        int64_t due = deliver(&there), due_back = deliver(&back);
        int64_t wait_ns = (due < due_back ? due : due_back) - now_ns();
        if (wait_ns < 0)
            wait_ns = 0;
        struct timespec wait = {.tv_sec = wait_ns / SECOND_NS, .tv_nsec = wait_ns % SECOND_NS};
        struct pollfd ends[] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
        if (ppoll(ends, 2, &wait, NULL) < 0 && errno != EINTR)
            fail("poll");
        take_in(&there, delay_ns);
        take_in(&back, delay_ns);
    }
}
