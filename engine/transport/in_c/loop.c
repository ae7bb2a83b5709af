/* The I/O thread: waits in epoll, moves bytes, serves the control connections; the order of work is that of
 * engine/transport/loop.py. */
#include "core.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define COARSE_NS 20000000
#define MILLISECOND_NS 1000000
#define READABLE (EPOLLIN | EPOLLHUP | EPOLLERR)
#define WAKE UINT64_MAX
#define MOST_EVENTS 64

struct ranked {
    struct peer *peer;
    int32_t urgency;
    uint64_t turn;
};

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int by_urgency(const void *first, const void *second)
{
    const struct ranked *a = first, *b = second;
    if (a->urgency != b->urgency)
        return a->urgency < b->urgency ? -1 : 1;
    return (a->turn > b->turn) - (a->turn < b->turn);
}

/* Any thread: makes the I/O thread look around, if it sleeps. */
void loop_wake(struct core *core)
{
    atomic_store(&core->pending, true);
    if (atomic_exchange(&core->sleeping, false)) {
        uint64_t one = 1;
        ssize_t ignored = write(core->wake_fd, &one, sizeof one);
        (void)ignored; /* It fails only where the thread is to be woken already. */
    }
}

/* The data connection ended; whether that is a loss, the control connection will say. */
static void end_data(struct peer *peer, const char *what, int error)
{
    peer->data_broken |= error != 0;
    if (peer->data_ended_ns)
        return;
    peer->data_ended_ns = now_ns();
    if (error)
        snprintf(peer->data_end_reason, sizeof peer->data_end_reason, "%s ([Errno %d] %s)", what, error,
                 strerror(error));
    else
        snprintf(peer->data_end_reason, sizeof peer->data_end_reason, "%s", what);
}

/* What the kernel takes for the peer; on a paced path one chunk of the most urgent message. */
static void write_to(struct core *core, struct peer *peer)
{
    core->turn_number++;
    peer->changed = true;
    int result = 0;
    if (!peer->paced) {
        result = outbound_write_on(core, peer, TURN_BYTES);
        peer->full = result > 0;
    } else if (now_ns() >= core->egress_at_ns) {
        pthread_mutex_lock(&core->lock);
        int64_t allowed = earlier(backlog_next_bytes(&peer->backlog), core->egress.chunk_bytes);
        pthread_mutex_unlock(&core->lock);
        core->egress_at_ns = pacing_acquire(&core->egress, allowed, now_ns());
        if (!core->egress_at_ns) {
            ssize_t count = outbound_write(core, peer, allowed);
            result = count < 0 ? ERROR : 0;
            int error = errno;
            pacing_refund(&core->egress, allowed - (count < 0 ? 0 : count));
            errno = error;
        }
    }
    if (result == ERROR)
        end_data(peer, "its data connection broke while sending", errno);
    peer->served = core->turn_number;
}

/* What the kernel has from the peer; on a paced path one chunk. False: not now. */
static bool receive(struct core *core, struct peer *peer, ssize_t *count)
{
    if (!peer->paced) {
        *count = inbound_read_on(core, peer, TURN_BYTES);
        return true;
    }
    int64_t allowed = inbound_next_bytes(peer, core->ingress.chunk_bytes);
    core->ingress_at_ns = pacing_acquire(&core->ingress, allowed, now_ns());
    if (core->ingress_at_ns)
        return false;
    peer->read = core->turn_number;
    *count = inbound_read(core, peer, allowed);
    int error = errno;
    pacing_refund(&core->ingress, allowed - (*count > 0 ? *count : 0));
    errno = error;
    return true;
}

static void read_from(struct core *core, struct peer *peer)
{
    ssize_t count;
    core->turn_number++;
    bool amid = control_senders(core, NULL, now_ns()) > 0;
    if (!receive(core, peer, &count))
        return;
    if (count == ERROR) {
        end_data(peer, "its data connection broke", errno);
    } else if (count == ENDED) {
        end_data(peer, "its data connection ended", 0);
    } else if (count > 0) {
        int64_t at_ns = peer->heard_ns = peer->data_heard_ns = now_ns();
        window_passed(&core->window, count, at_ns, amid);
        peer->may_be_due = true;
        int64_t share = window_share(&core->window, control_senders(core, peer, at_ns));
        if (!peer->paced && !inbound_waits_for_python(peer))
            inbound_wake_after(peer, share, window_share(&core->window, 1));
    }
}

/* Gives the kernel what waits, the most urgent first; answers whether it would take more. Paced paths are served when
 * their time has come. */
static bool send_out(struct core *core)
{
    struct ranked ready[core->peer_count + 1];
    int count = 0;
    bool more = false;
    int32_t urgency;
    for (int i = 0; i < core->peer_count; i++) {
        struct peer *peer = &core->peers[i];
        if (!peer->paced && !peer->full && wants_to_write(core, peer, &urgency))
            ready[count++] = (struct ranked){peer, urgency, peer->served};
    }
    if (count > 1)
        qsort(ready, (size_t)count, sizeof *ready, by_urgency);
    for (int i = 0; i < count; i++)
        write_to(core, ready[i].peer);
    for (int i = 0; i < count; i++)
        more |= !ready[i].peer->full && wants_to_write(core, ready[i].peer, &urgency);
    return more;
}

/* Changes what epoll waits for; answers `wanted`. */
static int watch(struct core *core, int fd, uint64_t name, int watched, int wanted)
{
    struct epoll_event event = {.events = wanted == NONE ? 0 : (uint32_t)wanted, .data.u64 = name};
    if (wanted == NONE && watched != NONE)
        epoll_ctl(core->epoll, EPOLL_CTL_DEL, fd, NULL);
    else if (wanted != NONE && watched == NONE)
        epoll_ctl(core->epoll, EPOLL_CTL_ADD, fd, &event);
    else if (wanted != watched)
        epoll_ctl(core->epoll, EPOLL_CTL_MOD, fd, &event);
    return wanted;
}

/* What to wait for on the data connection; NONE: nothing, not even its end. */
static int wanted_data_events(struct core *core, struct peer *peer, int64_t at_ns, bool full)
{
    if (peer->data_broken)
        return NONE;
    bool may_read = (!peer->paced || at_ns >= core->ingress_at_ns) && !full;
    bool may_write = !peer->paced || at_ns >= core->egress_at_ns;
    bool asking = inbound_waits_for_python(peer);
    int32_t urgency;
    int events = !peer->data_ended_ns && may_read && !asking ? EPOLLIN : 0;
    if (may_write && (peer->paced || peer->full) && wants_to_write(core, peer, &urgency))
        events |= EPOLLOUT;
    return events || !(peer->data_ended_ns || asking || full) ? events : NONE;
}

/* Says what is due to be said, and tells epoll what each connection waits for. */
static void settle(struct core *core, int64_t at_ns)
{
    bool full = events_full(core);
    for (int i = 0; i < core->peer_count; i++) {
        struct peer *peer = &core->peers[i];
        if (!(peer->changed || peer->full || peer->paced || peer->control_out.count || full))
            continue;
        peer->changed = full; /* What is paused by a full queue is looked at again. */
        control_parting(core, peer);
        int wanted = wanted_data_events(core, peer, at_ns, full);
        peer->data_interest = watch(core, peer->data, 2 * (uint64_t)i, peer->data_interest, wanted);
        wanted = NONE;
        if (!peer->gone) {
            control_flush(core, peer);
            wanted = EPOLLIN | (peer->control_out.count ? EPOLLOUT : 0);
        }
        peer->control_interest = watch(core, peer->control, 2 * (uint64_t)i + 1, peer->control_interest, wanted);
    }
}

/* What Python has asked for, or answered. */
static void obey_python(struct core *core)
{
    for (int i = 0; i < core->peer_count; i++) {
        struct peer *peer = &core->peers[i];
        inbound_answered(core, peer);
        if (atomic_exchange(&peer->ping_asked, false)) {
            control_put(peer, PING, now_ns(), 0, NULL);
            peer->changed = true;
        }
        peer->changed |= atomic_load(&core->closing);
    }
}

static void tell_parted(struct core *core)
{
    if (!atomic_load(&core->closing) || atomic_load(&core->parted))
        return;
    for (int i = 0; i < core->peer_count; i++)
        if (!atomic_load(&core->peers[i].parted))
            return;
    atomic_store(&core->parted, true);
    struct event event = {.kind = PARTED, .slot = NONE};
    event_put(core, &event, true);
}

/* Whether Python has finished something that a sender may be waiting for. */
static bool owes_credit(struct core *core)
{
    if (atomic_load(&core->withheld_count))
        for (int i = 0; i < core->peer_count; i++)
            if (atomic_load(&core->peers[i].handled_bytes))
                return true;
    return false;
}

static void nap(struct core *core, int64_t left_ns)
{
    struct timespec left = {.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
    struct pollfd polled = {.fd = core->epoll, .events = POLLIN};
    ppoll(&polled, 1, &left, NULL);
}

/* Blocks until something happens, the time comes, or the helm is to be left; `paced`: it is a paced link's time, for
 * which the whole milliseconds of epoll are too coarse. */
static int wait_for_events(struct core *core, int64_t until_ns, bool paced, struct epoll_event *events)
{
    if (events_flush(core, false))
        return 0;
    int64_t left_ns = until_ns - now_ns();
    bool unsaid = events_unsaid(core);
    atomic_store(&core->sleeping, true);
    if (left_ns <= 0 || atomic_load(&core->pending) || owes_credit(core))
        left_ns = 0;
    int64_t sleep_ns = unsaid ? earlier(left_ns, UNSAID_NS) : left_ns;
    if (paced && sleep_ns > 0 && sleep_ns < COARSE_NS) {
        nap(core, sleep_ns);
        sleep_ns = 0;
    }
    int timeout_ms = (int)((sleep_ns + MILLISECOND_NS - 1) / MILLISECOND_NS);
    int count = epoll_wait(core->epoll, events, MOST_EVENTS, timeout_ms);
    atomic_store(&core->sleeping, false);
    if (unsaid && left_ns && count <= 0)
        events_flush(core, true);
    return count;
}

static void serve(struct core *core, const struct epoll_event *events, int count)
{
    struct ranked writable[MOST_EVENTS], readable[MOST_EVENTS];
    int writes = 0, reads = 0;
    int32_t urgency;
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 == WAKE) {
            uint64_t woken;
            ssize_t ignored = read(core->wake_fd, &woken, sizeof woken);
            (void)ignored;
            continue;
        }
        struct peer *peer = &core->peers[events[i].data.u64 / 2];
        peer->changed = true;
        if (events[i].data.u64 % 2) {
            if (events[i].events & READABLE)
                control_read(core, peer);
            continue;
        }
        if (events[i].events & READABLE && !inbound_waits_for_python(peer))
            readable[reads++] = (struct ranked){peer, inbound_urgency(peer), peer->read};
        if (events[i].events & EPOLLOUT) {
            peer->full = false;
            if (peer->paced && wants_to_write(core, peer, &urgency))
                writable[writes++] = (struct ranked){peer, urgency, peer->served};
        }
    }
    qsort(writable, (size_t)writes, sizeof *writable, by_urgency);
    for (int i = 0; i < writes; i++)
        write_to(core, writable[i].peer);
    qsort(readable, (size_t)reads, sizeof *readable, by_urgency);
    for (int i = 0; i < reads; i++)
        if (!readable[i].peer->data_broken) /* It may have been lost a moment ago. */
            read_from(core, readable[i].peer);
}

/* By who is at the helm: one look at everything, and a wait until at most `end_ns`. */
void loop_turn(struct core *core, int64_t end_ns)
{
    atomic_store(&core->pending, false); /* Before looking at what a waker may have left. */
    int64_t at_ns = now_ns();
    control_awake(core, at_ns);
    if (at_ns >= core->next_beat_ns) {
        core->next_beat_ns = at_ns + core->heartbeat_ns;
        control_beat(core, at_ns);
    }
    obey_python(core);
    bool more = send_out(core);
    control_return_credit(core);
    settle(core, at_ns);
    tell_parted(core);
    int64_t until_ns = earlier(core->next_beat_ns, end_ns), without_pacing_ns = until_ns;
    if (core->egress_at_ns > at_ns)
        until_ns = earlier(until_ns, core->egress_at_ns);
    if (core->ingress_at_ns > at_ns)
        until_ns = earlier(until_ns, core->ingress_at_ns);
    struct epoll_event events[MOST_EVENTS];
    int count = wait_for_events(core, more ? 0 : until_ns, until_ns != without_pacing_ns, events);
    serve(core, events, count);
}

/* Tells the peers why, if there is something to tell, and closes the connections. */
static void hang_up(struct core *core)
{
    for (int i = 0; i < core->peer_count; i++) {
        struct peer *peer = &core->peers[i];
        if (!peer->gone) {
            if (core->aborting)
                control_put(peer, ABORT, core->culprit, 0, core->abort_text);
            control_flush(core, peer);
        }
        close(peer->data);
        close(peer->control);
    }
}

/* The deputy. */
void *loop_run(void *argument)
{
    struct core *core = argument;
    core->next_beat_ns = now_ns();
    struct epoll_event wake = {.events = EPOLLIN, .data.u64 = WAKE};
    epoll_ctl(core->epoll, EPOLL_CTL_ADD, core->wake_fd, &wake);
    for (int i = 0; i < core->peer_count; i++)
        control_grant(core, &core->peers[i], 1);
    while (!atomic_load(&core->stopping))
        if (atomic_load(&core->failed) || !helm_is_deputys(core)) /* After a failure Python says what to tell others. */
            helm_wait_as_deputy(core);
        else
            loop_turn(core, INT64_MAX);
    while (!helm_is_deputys(core))
        helm_wait_as_deputy(core);
    hang_up(core);
    return NULL;
}
