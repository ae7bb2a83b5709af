/* The sending half of a data connection: what the backlog lets leave is given to the kernel. */
#include "core.h"

#include <errno.h>
#include <sys/socket.h>

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

/* The kernel took `count` bytes of the message. */
static void account(struct core *core, struct peer *peer, struct message *message, uint64_t count, int64_t at_ns)
{
    if (message->start_ns == NONE)
        message->start_ns = at_ns; /* Of this run: an interrupted message begins another one. */
    pthread_mutex_lock(&core->lock);
    window_passed(&peer->backlog.passed, (int64_t)count, at_ns, peer->draining);
    uint64_t payload = message_advance(message, count);
    bool ended = message->frame_left + message->payload_left == 0;
    if (ended)
        peer->backlog.current = NULL;
    pthread_mutex_unlock(&core->lock);
    peer->draining = false;
    count_sent(core, peer, message->layer, payload, count - payload);
    if (ended) {
        outbound_report(core, peer, message, SENT);
        message_free(message);
    }
}

/* Gives the kernel at most `limit` bytes of what is most urgent; answers how many, or ERROR with errno. */
ssize_t outbound_write(struct core *core, struct peer *peer, int64_t limit)
{
    pthread_mutex_lock(&core->lock);
    struct message *message = backlog_choose(core, peer);
    pthread_mutex_unlock(&core->lock);
    if (!message)
        return 0;
    struct iovec views[VIEWS];
    struct msghdr gathered = {.msg_iov = views};
    gathered.msg_iovlen = (size_t)message_next_views(message, limit, views, VIEWS);
    int64_t at_ns = now_ns();
    ssize_t count = sendmsg(peer->data, &gathered, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : ERROR;
    account(core, peer, message, (uint64_t)count, at_ns);
    return count;
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
