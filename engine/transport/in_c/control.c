/* What a process and its peers say on their control connections: credit, signs of life, time, partings; the rules are
 * those of engine/transport/dialogue.py. */
#include "core.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define JUST_NS 2000000
#define DATA_END_GRACE_NS 2000000000
#define READ_BYTES 65536

static void append(struct bytes *bytes, const void *data, size_t count)
{
    if (bytes->count + count > bytes->room) {
        bytes->room = 2 * (bytes->count + count);
        bytes->data = realloc(bytes->data, bytes->room);
        if (!bytes->data)
            abort();
    }
    memcpy(bytes->data + bytes->count, data, count);
    bytes->count += count;
}

static void drop_first(struct bytes *bytes, size_t count)
{
    bytes->count -= count;
    memmove(bytes->data, bytes->data + count, bytes->count);
}

/* Queues a frame; it leaves with the next control_flush. */
void control_put(struct peer *peer, enum control kind, int64_t a, int64_t b, const char *text)
{
    size_t length = text ? strnlen(text, TEXT_LIMIT_BYTES) : 0;
    struct frame frame = {.kind = (uint8_t)kind, .text_bytes = (uint16_t)length, .a = a, .b = b};
    append(&peer->control_out, &frame, sizeof frame);
    append(&peer->control_out, text ? text : "", length);
}

/* An error is left for reading, which tells what happened and what the peer still had to say. */
void control_flush(struct core *core, struct peer *peer)
{
    struct bytes *out = &peer->control_out;
    if (!out->count)
        return;
    ssize_t count = send(peer->control, out->data, out->count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count <= 0)
        return;
    drop_first(out, (size_t)count);
    count_sent(core, peer, NONE, 0, (uint64_t)count);
}

/* Goes on without the peer: both connections end, so that it hears of this if it lives. */
static void abandon(struct core *core, struct peer *peer)
{
    peer->gone = peer->data_broken = peer->changed = true;
    if (!peer->data_ended_ns)
        peer->data_ended_ns = now_ns();
    outbound_drop(core, peer);
    shutdown(peer->data, SHUT_RDWR);
    shutdown(peer->control, SHUT_RDWR);
    if (peer->withheld)
        atomic_fetch_sub(&core->withheld_count, 1);
    peer->withheld = false;
}

/* The peer is of no use any more: everything ends, unless it may be lost. */
__attribute__((format(printf, 5, 6)))
static void lose(struct core *core, struct peer *peer, enum event_kind kind, int64_t culprit, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(peer->loss, sizeof peer->loss, format, arguments);
    va_end(arguments);
    if (!atomic_load(&peer->expendable)) {
        fail(core, kind, peer->index, culprit, "%s", peer->loss);
        return;
    }
    control_put(peer, ABORT, peer->index, 0, peer->loss);
    control_flush(core, peer);
    abandon(core, peer);
    struct event event = {
        .kind = kind, .peer = peer->index, .slot = TOLERATED, .count = culprit, .data = (uintptr_t)peer->loss,
        .meta_bytes = (int32_t)strlen(peer->loss),
    };
    event_put(core, &event, true);
}

/* The peer gave `count` bytes back. */
void control_granted(struct core *core, struct peer *peer, int64_t count)
{
    pthread_mutex_lock(&core->lock);
    bool sensible = backlog_granted(&peer->backlog, count);
    pthread_mutex_unlock(&core->lock);
    if (!sensible)
        fail(core, BROKEN, peer->index, 0, "credit of %lld bytes: out of step", (long long)count);
}

static void obey(struct core *core, struct peer *peer, const struct frame *frame, const char *text)
{
    switch (frame->kind) {
    case HEARTBEAT:
        break;
    case CREDIT:
        control_granted(core, peer, frame->a);
        break;
    case PING:
        control_put(peer, PONG, frame->a, now_ns() - core->epoch_ns, NULL);
        control_flush(core, peer);
        break;
    case PONG: {
        struct event event = {
            .kind = PONGED, .peer = peer->index, .slot = NONE, .start_ns = frame->a, .count = frame->b,
            .end_ns = now_ns(),
        };
        event_put(core, &event, true);
        break;
    }
    case GOODBYE:
        peer->left = true;
        break;
    case FAREWELL:
        peer->confirmed = true;
        break;
    case ABORT:
        lose(core, peer, ABORTED, frame->a, "%.*s", frame->text_bytes, text);
        break;
    default:
        fail(core, BROKEN, peer->index, 0, "unknown control frame of kind %d", frame->kind);
    }
}

/* The stream has ended, by a goodbye or without. */
static void ended(struct core *core, struct peer *peer, int error)
{
    pthread_mutex_lock(&core->lock);
    bool empty = backlog_empty(&peer->backlog);
    pthread_mutex_unlock(&core->lock);
    if (peer->left && empty)
        peer->gone = true;
    else if (peer->left)
        lose(core, peer, LOST, 0, "it left in good order while messages for it were still queued");
    else if (error)
        lose(core, peer, LOST, 0, "its control connection broke ([Errno %d] %s): it was killed or crashed",
             error, strerror(error));
    else
        lose(core, peer, LOST, 0, "its connections closed without a goodbye: it was killed or crashed");
}

void control_read(struct core *core, struct peer *peer)
{
    if (peer->gone)
        return;
    uint8_t buffer[READ_BYTES];
    ssize_t count = recv(peer->control, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0) {
        ended(core, peer, count < 0 ? errno : 0);
        return;
    }
    peer->heard_ns = now_ns();
    count_received(core, peer, NONE, 0, (uint64_t)count);
    struct bytes *in = &peer->control_in;
    append(in, buffer, (size_t)count);
    size_t at = 0;
    for (struct frame frame; in->count - at >= sizeof frame && !core->failed && !peer->gone;) {
        memcpy(&frame, in->data + at, sizeof frame);
        if (in->count - at < sizeof frame + frame.text_bytes)
            break;
        obey(core, peer, &frame, (const char *)in->data + at + sizeof frame);
        at += sizeof frame + frame.text_bytes;
    }
    drop_first(in, at);
}

/* How many peers are sending to us, `one` in any case. */
int control_senders(const struct core *core, const struct peer *one, int64_t at_ns)
{
    int count = 0;
    for (int i = 0; i < core->peer_count; i++) {
        const struct peer *peer = &core->peers[i];
        bool sends = peer == one || inbound_in_message(peer) || peer->data_heard_ns > at_ns - JUST_NS;
        count += sends && !peer->gone;
    }
    return count;
}

/* Gives `peer`, one of `senders`, the credit that is due, if it is worth a frame. */
void control_grant(struct core *core, struct peer *peer, int senders)
{
    if (peer->gone)
        return;
    struct receiver_credit *credit = &peer->inbox.credit;
    int64_t count = credit_take_grant(credit, window_share(&core->window, senders), senders == 1);
    bool withheld = credit_withheld(credit);
    if (withheld != peer->withheld) {
        peer->withheld = withheld;
        atomic_fetch_add(&core->withheld_count, withheld ? 1 : -1);
    }
    if (count) {
        control_put(peer, CREDIT, count, 0, NULL);
        control_flush(core, peer);
    }
}

/* What may go back to `peer` with a header that leaves now, in GRANT_UNITs. On a paced path it would wait for its turn. */
uint8_t control_grant_along(struct core *core, struct peer *peer)
{
    if (peer->paced || peer->gone)
        return 0;
    int senders = control_senders(core, peer, now_ns());
    return credit_take_along(&peer->inbox.credit, window_share(&core->window, senders));
}

/* Gives credit for what has come and for what Python has finished, as far as it did not leave with data. */
void control_return_credit(struct core *core)
{
    for (int i = 0; i < core->peer_count; i++) {
        struct peer *peer = &core->peers[i];
        int64_t handled = atomic_load(&peer->handled_bytes) ? atomic_exchange(&peer->handled_bytes, 0) : 0;
        if (!handled && !peer->may_be_due)
            continue;
        peer->may_be_due = false;
        peer->inbox.credit.handled += handled;
        control_grant(core, peer, control_senders(core, peer, now_ns()));
    }
}

/* Gives every peer a sign of life, unless Python's thread is stuck; a peer that gives none is lost. */
void control_beat(struct core *core, int64_t at_ns)
{
    bool alive = atomic_exchange(&core->python_alive, false) || atomic_load(&core->python_waits) || core->helm == PYTHON;
    for (int i = 0; i < core->peer_count; i++) {
        struct peer *peer = &core->peers[i];
        if (peer->left || peer->gone)
            continue;
        if (alive)
            control_put(peer, HEARTBEAT, 0, 0, NULL);
        peer->changed = true;
        int64_t silent_ns = peer->heard_ns ? at_ns - peer->heard_ns : 0;
        if (silent_ns > core->silence_ns)
            lose(core, peer, LOST, 0,
                 "no sign of life for %.1f s; the job allows %g s (cluster.silence_s: give more where workers may"
                 " stop for so long)",
                 (double)silent_ns / 1e9, (double)core->silence_ns / 1e9);
        else if (peer->data_ended_ns && at_ns - peer->data_ended_ns > DATA_END_GRACE_NS)
            lose(core, peer, LOST, 0, "%s", peer->data_end_reason);
    }
}

/* At every turn: after a long sleep of this process, silence counts from now. */
void control_awake(struct core *core, int64_t at_ns)
{
    if (core->awake_ns && at_ns - core->awake_ns > core->silence_ns / 2)
        for (int i = 0; i < core->peer_count; i++)
            if (core->peers[i].heard_ns)
                core->peers[i].heard_ns = at_ns;
    core->awake_ns = at_ns;
}

/* Takes the steps of an orderly end that are due. */
void control_parting(struct core *core, struct peer *peer)
{
    if (peer->left && peer->data_ended_ns && !peer->farewell_said) {
        peer->farewell_said = true;
        control_put(peer, FAREWELL, 0, 0, NULL);
    }
    if (atomic_load(&core->closing) && !peer->goodbye_said && !peer->gone) {
        pthread_mutex_lock(&core->lock);
        bool empty = backlog_empty(&peer->backlog);
        pthread_mutex_unlock(&core->lock);
        if (empty) {
            peer->goodbye_said = true;
            if (!peer->data_broken)
                shutdown(peer->data, SHUT_WR);
            control_put(peer, GOODBYE, 0, 0, NULL);
        }
    }
    atomic_store(&peer->parted, peer->confirmed || peer->gone);
}
