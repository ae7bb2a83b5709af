/* The receiving half of a data connection. A short message goes into a slot and Python is told once it is whole; for a
 * long one Python is asked where it belongs, and meanwhile nothing more is read from this peer. */
#include "core.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MAGIC 0x7A
#define CONTINUES 0x7B
#define LUMP_BYTES (64 * 1024)
#define LARGEST_PAYLOAD (UINT64_C(1) << 48)

static uint64_t first_fragment(const struct header *header)
{
    uint64_t length = (uint64_t)header->fragment * FRAGMENT_UNIT;
    return length && length < header->payload_bytes ? length : header->payload_bytes;
}

bool inbound_in_message(const struct peer *peer) { return peer->inbox.current || peer->inbox.fixed_got; }

bool inbound_waits_for_python(const struct peer *peer) { return peer->inbox.state == ASKING; }

/* Priority of the message under way; before a header that has not been read, as urgent as can be. */
int32_t inbound_urgency(const struct peer *peer)
{
    const struct inbox *inbox = &peer->inbox;
    return inbox->state == PAYLOAD ? inbox->current->header.priority : INT32_MIN;
}

int64_t inbound_next_bytes(const struct peer *peer, int64_t limit)
{
    uint64_t wanted = peer->inbox.fragment_left + HEADER_BYTES;
    return wanted < (uint64_t)limit ? (int64_t)wanted : limit;
}

static struct event about(const struct peer *peer, const struct incoming *message, enum event_kind kind)
{
    return (struct event){
        .kind = kind, .peer = peer->index, .slot = message->slot, .id = message->id, .header = message->header,
        .meta_bytes = (int32_t)message->header.meta_bytes, .data = (uintptr_t)message->meta,
        .start_ns = message->start_ns, .count = (int64_t)(message->run_left - message->left),
    };
}

static void incoming_free(struct incoming *message)
{
    if (message && message->slot == NONE)
        free(message->meta);
    if (message)
        free(message->answer);
    free(message);
}

void inbound_free(struct inbox *inbox)
{
    incoming_free(inbox->current);
    for (struct incoming *next; inbox->interrupted; inbox->interrupted = next) {
        next = inbox->interrupted->next;
        incoming_free(inbox->interrupted);
    }
}

/* The message is complete: tell Python, and wait for the next header. */
static void finish(struct core *core, struct peer *peer)
{
    struct inbox *inbox = &peer->inbox;
    struct incoming *message = inbox->current;
    inbox->credit.unfinished -= (int64_t)message->unfinished;
    struct event event = about(peer, message, message->slot == NONE ? PLACED : MESSAGE);
    event.end_ns = now_ns();
    event_put(core, &event, true);
    incoming_free(message);
    inbox->current = NULL;
    inbox->state = FIXED;
}

/* The header is complete, and it is known where the payload belongs. */
static void begin(struct core *core, struct peer *peer)
{
    struct inbox *inbox = &peer->inbox;
    inbox->fixed_got = 0;
    inbox->fragment_left = first_fragment(&inbox->current->header);
    inbox->state = PAYLOAD;
    if (!inbox->current->header.payload_bytes)
        finish(core, peer);
}

static void ask(struct core *core, struct peer *peer, enum event_kind kind)
{
    peer->inbox.state = ASKING;
    struct event event = about(peer, peer->inbox.current, kind);
    event_put(core, &event, true);
}

/* Python has said where the message belongs, or that its meta may come. */
void inbound_answered(struct core *core, struct peer *peer)
{
    struct answer *answer = atomic_exchange(&peer->answer, NULL);
    if (!answer)
        return;
    struct inbox *inbox = &peer->inbox;
    struct incoming *message = inbox->current;
    peer->changed = true;
    if (message->header.meta_bytes && !message->meta) {
        free(answer);
        message->meta = malloc(message->header.meta_bytes);
        inbox->meta_got = 0;
        inbox->state = META;
        if (!message->meta)
            fail(core, BROKEN, peer->index, 0, "no memory for a meta of %u bytes", message->header.meta_bytes);
        return;
    }
    message->answer = answer;
    message->targets = answer->views;
    message->target_count = answer->view_count;
    begin(core, peer);
}

static void use_slot(struct core *core, struct incoming *message)
{
    size_t payload_at = slot_payload_at(message->header.meta_bytes);
    message->meta = slot_memory(core, message->slot);
    message->in_slot = (struct iovec){message->meta + payload_at, message->header.payload_bytes};
    message->targets = &message->in_slot;
    message->target_count = 1;
}

/* The next fragment of the message under way, or of the one interrupted last, begins. */
static void go_on(struct core *core, struct peer *peer, uint64_t fragment_bytes)
{
    struct inbox *inbox = &peer->inbox;
    if (!inbox->current) {
        if (!inbox->interrupted) {
            fail(core, BROKEN, peer->index, 0, "a message goes on that has not begun: out of step");
            return;
        }
        inbox->current = inbox->interrupted;
        inbox->interrupted = inbox->current->next;
        inbox->current->start_ns = inbox->start_ns;
    }
    uint64_t left = inbox->current->left;
    if (!fragment_bytes || fragment_bytes >= left + FRAGMENT_UNIT) {
        fail(core, BROKEN, peer->index, 0, "%llu bytes of a message go on of which %llu are left: out of step",
             (unsigned long long)fragment_bytes, (unsigned long long)left);
        return;
    }
    inbox->fragment_left = fragment_bytes < left ? fragment_bytes : left;
    credit_announce(&inbox->credit, (int64_t)inbox->fragment_left);
    inbox->fixed_got = 0;
    inbox->state = PAYLOAD;
}

static bool makes_sense(struct core *core, const struct peer *peer, const struct header *header)
{
    if (header->magic != MAGIC)
        fail(core, BROKEN, peer->index, 0, "a message starts with byte 0x%x, not 0x%x: out of step", header->magic,
             MAGIC);
    else if (header->meta_bytes > META_LIMIT_BYTES)
        fail(core, BROKEN, peer->index, 0, "meta of %u bytes, at most %u are allowed", header->meta_bytes,
             META_LIMIT_BYTES);
    else if (header->payload_bytes > LARGEST_PAYLOAD)
        fail(core, BROKEN, peer->index, 0, "a payload of %llu bytes: out of step",
             (unsigned long long)header->payload_bytes);
    else
        return true;
    return false;
}

/* A message went before the rest of this one. */
static void interrupt(struct core *core, struct inbox *inbox, const struct peer *peer)
{
    struct incoming *message = inbox->current;
    struct event event = about(peer, message, RECEIVED_RUN);
    event.end_ns = inbox->start_ns;
    event_put(core, &event, false);
    message->run_left = message->left;
    message->next = inbox->interrupted;
    inbox->interrupted = message;
    inbox->current = NULL;
}

static void fixed_complete(struct core *core, struct peer *peer)
{
    struct inbox *inbox = &peer->inbox;
    struct header header;
    memcpy(&header, inbox->fixed, sizeof header);
    if (header.grant && (header.magic == MAGIC || header.magic == CONTINUES))
        control_granted(core, peer, (int64_t)header.grant * GRANT_UNIT);
    if (header.magic == CONTINUES) {
        go_on(core, peer, (uint64_t)header.fragment * FRAGMENT_UNIT);
        return;
    }
    if (!makes_sense(core, peer, &header))
        return;
    if (inbox->current)
        interrupt(core, inbox, peer);
    credit_announce(&inbox->credit, (int64_t)(HEADER_BYTES + header.meta_bytes + first_fragment(&header)));
    inbox->credit.arrived += HEADER_BYTES;
    struct incoming *message = calloc(1, sizeof *message);
    if (!message) {
        fail(core, BROKEN, peer->index, 0, "no memory for a message");
        return;
    }
    message->header = header;
    message->left = message->run_left = header.payload_bytes;
    message->start_ns = inbox->start_ns;
    message->id = ++core->incoming_number;
    bool fits = slot_payload_at(header.meta_bytes) + header.payload_bytes <= SLOT_BYTES;
    message->slot = fits ? slot_take(core) : NONE;
    inbox->current = message;
    if (message->slot == NONE) {
        ask(core, peer, header.meta_bytes ? ASK_ALLOW : ASK_PLACE);
        return;
    }
    use_slot(core, message);
    inbox->meta_got = 0;
    inbox->state = META;
    if (!header.meta_bytes)
        begin(core, peer);
}

static void meta_complete(struct core *core, struct peer *peer)
{
    if (peer->inbox.current->slot == NONE)
        ask(core, peer, ASK_PLACE);
    else
        begin(core, peer);
}

/* Fills `views` with where the next bytes go; answers how many views that are. */
static int next_targets(struct inbox *inbox, uint64_t limit, struct iovec *views)
{
    if (inbox->state == FIXED) {
        views[0] = (struct iovec){inbox->fixed + inbox->fixed_got, HEADER_BYTES - inbox->fixed_got};
        return 1;
    }
    struct incoming *message = inbox->current;
    if (inbox->state == META) {
        views[0] = (struct iovec){message->meta + inbox->meta_got, message->header.meta_bytes - inbox->meta_got};
        return 1;
    }
    uint64_t room = limit < inbox->fragment_left ? limit : inbox->fragment_left;
    int count = 0;
    for (int i = message->target; room && i < message->target_count && count < VIEWS; i++) {
        size_t length = message->targets[i].iov_len < room ? message->targets[i].iov_len : (size_t)room;
        views[count++] = (struct iovec){message->targets[i].iov_base, length};
        room -= length;
    }
    if (!room && limit >= inbox->fragment_left) /* The next header comes with the end of this fragment. */
        views[count++] = (struct iovec){inbox->fixed, HEADER_BYTES};
    return count;
}

static void advance(struct core *core, struct peer *peer, uint64_t count)
{
    struct inbox *inbox = &peer->inbox;
    struct incoming *message = inbox->current;
    inbox->credit.arrived += (int64_t)count;
    inbox->fragment_left -= count;
    message->left -= count;
    for (uint64_t left = count; left;) {
        struct iovec *view = &message->targets[message->target];
        size_t step = view->iov_len < left ? view->iov_len : (size_t)left;
        view->iov_base = (uint8_t *)view->iov_base + step;
        view->iov_len -= step;
        left -= step;
        if (!view->iov_len)
            message->target++;
    }
    if (!message->left) {
        finish(core, peer);
    } else if (!inbox->fragment_left) {
        uint64_t come = HEADER_BYTES + message->header.meta_bytes + message->header.payload_bytes - message->left;
        inbox->credit.unfinished += (int64_t)(come - message->unfinished);
        message->unfinished = come;
        inbox->state = FIXED;
    }
}

/* Advances through header, meta and payload by `count` received bytes. */
static void take(struct core *core, struct peer *peer, uint64_t count)
{
    struct inbox *inbox = &peer->inbox;
    int32_t layer = inbox->current ? inbox->current->header.layer : NONE;
    uint64_t payload = 0, overhead = 0;
    for (uint64_t step; count && !core->failed; count -= step) {
        if (inbox->state == PAYLOAD) {
            step = count < inbox->fragment_left ? count : inbox->fragment_left;
            payload += step;
            advance(core, peer, step);
        } else if (inbox->state == FIXED) {
            if (!inbox->fixed_got)
                inbox->start_ns = now_ns();
            step = count < HEADER_BYTES - inbox->fixed_got ? count : HEADER_BYTES - inbox->fixed_got;
            overhead += step;
            inbox->fixed_got += step;
            if (inbox->fixed_got == HEADER_BYTES)
                fixed_complete(core, peer);
        } else {
            uint64_t left = inbox->current->header.meta_bytes - inbox->meta_got;
            step = count < left ? count : left;
            overhead += step;
            inbox->credit.arrived += (int64_t)step;
            inbox->meta_got += step;
            if (step == left)
                meta_complete(core, peer);
        }
    }
    count_received(core, peer, layer, payload, overhead);
}

/* Takes at most about `limit` bytes from the kernel; answers how many, ENDED at the end of the stream, or ERROR. */
ssize_t inbound_read(struct core *core, struct peer *peer, int64_t limit)
{
    struct inbox *inbox = &peer->inbox;
    struct iovec views[VIEWS + 1];
    struct msghdr scattered = {.msg_iov = views};
    scattered.msg_iovlen = (size_t)next_targets(inbox, (uint64_t)limit, views);
    size_t wanted = 0;
    for (size_t i = 0; i < scattered.msg_iovlen; i++)
        wanted += views[i].iov_len;
    ssize_t count = recvmsg(peer->data, &scattered, MSG_DONTWAIT);
    if (count < 0) {
        inbox->drained = true;
        return errno == EAGAIN || errno == EINTR ? 0 : ERROR;
    }
    inbox->drained = (size_t)count < wanted;
    if (!count)
        return ENDED;
    take(core, peer, (uint64_t)count);
    return count;
}

/* Read after read until the kernel has no more, `limit` bytes have come, or Python is asked; as inbound_read. */
ssize_t inbound_read_on(struct core *core, struct peer *peer, int64_t limit)
{
    ssize_t total = 0;
    while (total < limit && peer->inbox.state != ASKING && !core->failed) {
        ssize_t count = inbound_read(core, peer, limit);
        if (count < 0)
            return total ? total : count; /* What has come is accounted for first; the end will be seen again. */
        total += count;
        if (peer->inbox.drained)
            break;
    }
    return total;
}

/* Lets the kernel wake us when there is something to do, not for every packet: when the fragment is complete; before that
 * when less than `share` of it is left, because then its sender needs credit, but not where it is shorter than the
 * `window` of all senders: they keep the path busy while the grant travels. */
void inbound_wake_after(struct peer *peer, int64_t share, int64_t window)
{
    int64_t left = (int64_t)peer->inbox.fragment_left;
    int64_t wanted = left < window ? left : left - share + 1;
    wanted = wanted < 1 ? 1 : wanted > LUMP_BYTES ? LUMP_BYTES : wanted;
    if (wanted != peer->inbox.low_water) {
        peer->inbox.low_water = (int)wanted;
        setsockopt(peer->data, SOL_SOCKET, SO_RCVLOWAT, &peer->inbox.low_water, sizeof peer->inbox.low_water);
    }
}
