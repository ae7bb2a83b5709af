/* The sending half of a data connection: what the backlog lets leave is given to the kernel. */
#include "core.h"

#include <errno.h>
#include <sys/socket.h>

#define TOGETHER 16
#define TOGETHER_BYTES (64 * 1024) /* As much waits in the kernel, where nothing more urgent overtakes it, in any case. */

bool wants_to_write(struct core *core, struct peer *peer, int32_t *priority)
{
    if (peer->data_broken || peer->goodbye_said)
        return false;
    pthread_mutex_lock(&core->lock);
    bool waits = backlog_urgency(&peer->backlog, priority);
    pthread_mutex_unlock(&core->lock);
    return waits;
}

/* A message has left, or as much of it as before an interruption. */
void outbound_report(struct core *core, struct peer *peer, struct message *message, enum event_kind kind)
{
    struct event event = {
        .kind = kind, .peer = peer->index, .id = message->id, .count = message->run_bytes,
        .start_ns = message->start_ns, .end_ns = now_ns(),
    };
    event_put(core, &event, kind == SENT && message->awaited);
    message->start_ns = NONE;
    message->run_bytes = 0;
}

/* Nobody is there any more for what waits, or is put from now on. */
void outbound_drop(struct core *core, struct peer *peer)
{
    pthread_mutex_lock(&core->lock);
    peer->backlog.dropped = true;
    for (struct message *message; (message = backlog_pop_any(&peer->backlog)); message_free(message)) {
        message->awaited = false;
        outbound_report(core, peer, message, DROPPED);
    }
    pthread_mutex_unlock(&core->lock);
}

/* What one call gives to the kernel: a message, and those after it that may leave whole with it. */
struct batch {
    struct message *messages[TOGETHER];
    size_t bytes[TOGETHER];
    struct iovec views[VIEWS];
    int count, view_count;
};

static void gather(struct batch *batch, struct message *message, int64_t limit)
{
    int at = batch->view_count, added = message_next_views(message, limit, batch->views + at, VIEWS - at);
    batch->view_count += added;
    batch->messages[batch->count] = message;
    batch->bytes[batch->count] = 0;
    for (int i = at; i < at + added; i++)
        batch->bytes[batch->count] += batch->views[i].iov_len;
    batch->count++;
}

/* What may leave next, in the order in which it leaves. */
static void choose(struct core *core, struct peer *peer, int64_t limit, struct batch *batch)
{
    pthread_mutex_lock(&core->lock);
    const struct message *current = peer->backlog.current;
    bool goes_on = current && !message_interruptible(current);
    struct message *message = backlog_choose(core, peer);
    if (message && !goes_on) /* Its header, or that of its next fragment, is about to leave. */
        message->frame[offsetof(struct header, grant)] = control_grant_along(core, peer);
    int64_t room = limit < TOGETHER_BYTES ? limit : TOGETHER_BYTES;
    while (message) {
        gather(batch, message, batch->count ? room : limit);
        size_t bytes = batch->bytes[batch->count - 1];
        room -= (int64_t)bytes;
        bool whole = (int64_t)bytes == message_left_bytes(message);
        bool more = whole && room > 0 && batch->count < TOGETHER;
        message = more ? backlog_choose_with(&peer->backlog, room, VIEWS - batch->view_count) : NULL;
    }
    pthread_mutex_unlock(&core->lock);
}

/* Of the batch's messages those after `last` have not begun: they wait where they did before. The caller holds the lock. */
static void put_back(struct peer *peer, const struct batch *batch, int last)
{
    for (int i = batch->count - 1; i > last; i--)
        backlog_put_back(&peer->backlog, batch->messages[i]);
    peer->backlog.last = batch->messages[last]->priority;
}

/* The kernel took `count` bytes of the batch. */
static void account(struct core *core, struct peer *peer, struct batch *batch, uint64_t count, int64_t at_ns)
{
    uint64_t payload[TOGETHER];
    int begun = 0;
    pthread_mutex_lock(&core->lock);
    window_passed(&peer->backlog.passed, (int64_t)count, at_ns, peer->draining);
    for (uint64_t left = count; left && begun < batch->count; begun++) {
        struct message *message = batch->messages[begun];
        if (message->start_ns == NONE)
            message->start_ns = at_ns; /* Of this run: an interrupted message begins another one. */
        batch->bytes[begun] = left < batch->bytes[begun] ? left : batch->bytes[begun];
        left -= batch->bytes[begun];
        payload[begun] = message_advance(message, batch->bytes[begun]);
        peer->backlog.current = message_left_bytes(message) ? message : NULL;
    }
    put_back(peer, batch, begun - 1);
    pthread_mutex_unlock(&core->lock);
    peer->draining = false;
    for (int i = 0; i < begun; i++) {
        struct message *message = batch->messages[i];
        count_sent(core, peer, message->layer, payload[i], batch->bytes[i] - payload[i]);
        if (message == peer->backlog.current)
            continue;
        outbound_report(core, peer, message, SENT);
        message_free(message);
    }
}

/* Gives the kernel at most `limit` bytes of what is most urgent; answers how many, or ERROR with errno. */
ssize_t outbound_write(struct core *core, struct peer *peer, int64_t limit)
{
    struct batch batch;
    batch.count = batch.view_count = 0;
    choose(core, peer, limit, &batch);
    if (!batch.count)
        return 0;
    struct msghdr gathered = {.msg_iov = batch.views, .msg_iovlen = (size_t)batch.view_count};
    int64_t at_ns = now_ns();
    ssize_t count = sendmsg(peer->data, &gathered, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
        account(core, peer, &batch, (uint64_t)count, at_ns);
        return count;
    }
    int error = errno;
    pthread_mutex_lock(&core->lock);
    put_back(peer, &batch, 0);
    pthread_mutex_unlock(&core->lock);
    errno = error;
    return error == EAGAIN || error == EINTR ? 0 : ERROR;
}

/* Message after message until the credit is used up, `limit` bytes have left, a fragment has, or the kernel is full;
 * answers whether to wait until the kernel has room, or ERROR. */
int outbound_write_on(struct core *core, struct peer *peer, int64_t limit)
{
    int32_t priority;
    while (limit > 0 && wants_to_write(core, peer, &priority)) {
        ssize_t count = outbound_write(core, peer, limit);
        if (count < 0)
            return ERROR;
        const struct message *current = peer->backlog.current; /* Only this thread changes it. */
        if (!count || current) {
            peer->draining = (current && message_interruptible(current)) || limit > count;
            return peer->draining;
        }
        limit -= count;
    }
    return false;
}
