/* What waits for one peer and what of it leaves next: a heap of messages, of which one at a time is on its way.
 * The rules are those of engine/transport/backlog.py and message.py. The caller holds `core.lock`. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#define CONTINUES 0x7B
#define LARGEST_FRAGMENT ((uint64_t)0xFFFF * FRAGMENT_UNIT)
#define MOST_URGENT 0
#define MOST_CREDIT_BYTES (INT64_C(1) << 48)

/* --- a heap in (priority, sequence) order --- */

static bool before(const struct message *a, const struct message *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->sequence < b->sequence;
}

static void heap_put(struct heap *heap, struct message *message)
{
    if (heap->count == heap->room) {
        heap->room = heap->room ? 2 * heap->room : 64;
        heap->items = realloc(heap->items, heap->room * sizeof *heap->items);
    }
    size_t at = heap->count++;
    for (; at && before(message, heap->items[(at - 1) / 2]); at = (at - 1) / 2)
        heap->items[at] = heap->items[(at - 1) / 2];
    heap->items[at] = message;
}

static void heap_push(struct heap *heap, struct message *message)
{
    message->sequence = heap->sequence++;
    heap_put(heap, message);
}

static struct message *heap_pop(struct heap *heap)
{
    struct message *first = heap->items[0], *moved = heap->items[--heap->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && before(heap->items[child + 1], heap->items[child]))
            child++;
        if (!before(heap->items[child], moved))
            break;
        heap->items[at] = heap->items[child];
    }
    heap->items[at] = moved;
    return first;
}

/* --- one message --- */

struct message *message_new(const uint8_t *frame, size_t frame_bytes, const uint64_t *views, int view_count)
{
    /* One piece of memory: the message, its views, its frame. */
    size_t views_bytes = (size_t)view_count * sizeof(struct iovec);
    struct message *message = calloc(1, sizeof *message + views_bytes + frame_bytes);
    if (!message)
        return NULL;
    struct header header;
    memcpy(&header, frame, sizeof header);
    message->views = (struct iovec *)(message + 1);
    message->frame = (uint8_t *)message->views + views_bytes;
    message->frame_left = frame_bytes;
    message->view_count = view_count;
    memcpy(message->frame, frame, frame_bytes);
    for (int i = 0; i < view_count; i++) {
        uint64_t pair[2];
        memcpy(pair, views + 2 * i, sizeof pair);
        message->views[i] = (struct iovec){(void *)(uintptr_t)pair[0], pair[1]};
    }
    message->layer = header.layer;
    message->priority = header.priority;
    message->start_ns = NONE;
    message->payload_left = message->fragment_left = header.payload_bytes;
    return message;
}

void message_free(struct message *message) { free(message); }

bool message_interruptible(const struct message *message)
{
    return message->fragment_left == 0 && message->payload_left > 0;
}

/* Writes the fragment's length into its header; answers it. */
static uint64_t fragment(uint64_t wanted, uint8_t *frame)
{
    uint64_t units = (wanted < LARGEST_FRAGMENT ? wanted : LARGEST_FRAGMENT) / FRAGMENT_UNIT;
    uint16_t written = units ? (uint16_t)units : 1;
    memcpy(frame + offsetof(struct header, fragment), &written, sizeof written);
    return (uint64_t)written * FRAGMENT_UNIT;
}

/* Before the first byte leaves: let the first fragment be at most about so long. */
static void message_cut(struct message *message, uint64_t fragment_bytes)
{
    if (message->payload_left > fragment_bytes)
        message->fragment_left = fragment(fragment_bytes, message->frame);
}

/* After a fragment: begin the next one. */
static void message_go_on(struct message *message, uint64_t fragment_bytes)
{
    memset(message->between, 0, HEADER_BYTES);
    message->between[0] = CONTINUES;
    uint64_t rest = (message->payload_left + FRAGMENT_UNIT - 1) / FRAGMENT_UNIT * FRAGMENT_UNIT;
    uint64_t length = fragment(fragment_bytes < rest ? fragment_bytes : rest, message->between);
    message->fragment_left = length < message->payload_left ? length : message->payload_left;
    message->frame = message->between;
    message->frame_left = HEADER_BYTES;
}

int message_next_views(const struct message *message, int64_t limit, struct iovec *out, int most)
{
    int count = 0;
    size_t head = message->frame_left < (uint64_t)limit ? message->frame_left : (size_t)limit;
    if (head)
        out[count++] = (struct iovec){message->frame, head};
    uint64_t room = (uint64_t)limit - head;
    if (room > message->fragment_left)
        room = message->fragment_left;
    for (int i = message->view; room && i < message->view_count && count < most; i++) {
        size_t length = message->views[i].iov_len < room ? message->views[i].iov_len : (size_t)room;
        out[count++] = (struct iovec){message->views[i].iov_base, length};
        room -= length;
    }
    return count;
}

uint64_t message_advance(struct message *message, uint64_t count)
{
    size_t head = count < message->frame_left ? (size_t)count : message->frame_left;
    message->frame += head;
    message->frame_left -= head;
    uint64_t payload = count - head;
    message->payload_left -= payload;
    message->fragment_left -= payload;
    message->run_bytes += (int64_t)payload;
    for (uint64_t left = payload; left;) {
        struct iovec *view = &message->views[message->view];
        size_t step = view->iov_len < left ? view->iov_len : (size_t)left;
        view->iov_base = (uint8_t *)view->iov_base + step;
        view->iov_len -= step;
        left -= step;
        if (!view->iov_len)
            message->view++;
    }
    return payload;
}

/* --- the backlog --- */

bool backlog_put(struct backlog *backlog, struct message *message)
{
    heap_push(&backlog->queue, message);
    if (backlog->queue.count == 1)
        return true;
    bool between = !backlog->current || message_interruptible(backlog->current);
    return between && message->priority < backlog->last && backlog->queue.items[0] == message;
}

bool backlog_empty(const struct backlog *backlog)
{
    return !backlog->current && !backlog->interrupted && !backlog->queue.count;
}

static bool may_interrupt(const struct backlog *backlog)
{
    if (!backlog->queue.count || backlog->queue.items[0]->priority >= backlog->last)
        return false;
    return backlog->balance_bytes > 0 || !backlog->overdrawn;
}

/* Whether what was interrupted last goes before what waits. */
static bool goes_on_first(const struct backlog *backlog)
{
    return backlog->interrupted
        && !(backlog->queue.count && backlog->queue.items[0]->priority < backlog->interrupted->priority);
}

bool backlog_urgency(const struct backlog *backlog, int32_t *priority)
{
    const struct message *current = backlog->current, *chosen = NULL;
    const struct message *waiting = backlog->queue.count ? backlog->queue.items[0] : NULL;
    if (current && !message_interruptible(current))
        chosen = current;
    else if (backlog->balance_bytes <= 0)
        chosen = may_interrupt(backlog) ? waiting : NULL;
    else if (!current)
        chosen = goes_on_first(backlog) ? backlog->interrupted : waiting;
    else
        chosen = waiting && waiting->priority < current->priority ? waiting : current;
    if (chosen)
        *priority = chosen->priority;
    return chosen != NULL;
}

int64_t message_left_bytes(const struct message *message)
{
    return message ? (int64_t)(message->frame_left + message->payload_left) : 0;
}

int64_t backlog_next_bytes(const struct backlog *backlog)
{
    int32_t priority;
    if (!backlog_urgency(backlog, &priority))
        return 0;
    int64_t waiting = message_left_bytes(backlog->queue.count ? backlog->queue.items[0] : NULL);
    int64_t standing = message_left_bytes(backlog->current ? backlog->current : backlog->interrupted);
    return waiting > standing ? waiting : standing;
}

static void start(struct backlog *backlog, int64_t cost)
{
    backlog->overdrawn |= backlog->balance_bytes <= 0;
    backlog->balance_bytes -= cost;
}

/* Makes the message that leaves next `current`; answers false where nothing may leave. */
static bool select_next(struct core *core, struct peer *peer)
{
    struct backlog *backlog = &peer->backlog;
    if (may_interrupt(backlog)) {
        if (backlog->current) {
            outbound_report(core, peer, backlog->current, SENT_RUN);
            backlog->current->next = backlog->interrupted;
            backlog->interrupted = backlog->current;
        }
        backlog->current = heap_pop(&backlog->queue);
    } else if (backlog->balance_bytes <= 0) {
        return false;
    } else if (!backlog->current) {
        if (goes_on_first(backlog)) {
            backlog->current = backlog->interrupted;
            backlog->interrupted = backlog->current->next;
        } else if (backlog->queue.count) {
            backlog->current = heap_pop(&backlog->queue);
        } else {
            return false;
        }
    }
    return true;
}

struct message *backlog_choose(struct core *core, struct peer *peer)
{
    struct backlog *backlog = &peer->backlog;
    if (backlog->current && !message_interruptible(backlog->current))
        return backlog->current;
    if (!select_next(core, peer))
        return NULL;
    struct message *chosen = backlog->current;
    backlog->last = chosen->priority;
    uint64_t share = (uint64_t)window_share(&backlog->passed, 1);
    if (message_interruptible(chosen)) {
        message_go_on(chosen, share);
        start(backlog, (int64_t)chosen->fragment_left);
    } else {
        if (chosen->priority > MOST_URGENT)
            message_cut(chosen, share);
        start(backlog, (int64_t)(chosen->frame_left + chosen->fragment_left));
    }
    return chosen;
}

/* Beside a message that leaves whole: the one after it, where that may leave with it, is at most `room` bytes long and
 * fits into so many views; else NULL. */
struct message *backlog_choose_with(struct backlog *backlog, int64_t room, int views)
{
    if (backlog->balance_bytes <= 0 || backlog->interrupted || !backlog->queue.count)
        return NULL;
    const struct message *next = backlog->queue.items[0];
    bool whole = next->priority <= MOST_URGENT || (int64_t)next->payload_left <= window_share(&backlog->passed, 1);
    if (!whole || message_left_bytes(next) > room || next->view_count + 1 > views)
        return NULL;
    struct message *chosen = heap_pop(&backlog->queue);
    start(backlog, message_left_bytes(chosen));
    return chosen;
}

/* Of a message that `backlog_choose_with` answered nothing has left: it waits where it did before. */
void backlog_put_back(struct backlog *backlog, struct message *message)
{
    backlog->balance_bytes += message_left_bytes(message);
    heap_put(&backlog->queue, message);
}

/* The receiver gave `count` bytes back. False: no receiver gives that. */
bool backlog_granted(struct backlog *backlog, int64_t count)
{
    if (count < 0 || count > MOST_CREDIT_BYTES - backlog->balance_bytes)
        return false;
    backlog->balance_bytes += count;
    backlog->overdrawn &= backlog->balance_bytes <= 0;
    return true;
}

/* Takes a message out, in no order; NULL where there is none. */
struct message *backlog_pop_any(struct backlog *backlog)
{
    struct message *taken = backlog->current;
    if (taken) {
        backlog->current = NULL;
    } else if (backlog->interrupted) {
        taken = backlog->interrupted;
        backlog->interrupted = taken->next;
    } else if (backlog->queue.count) {
        taken = backlog->queue.items[--backlog->queue.count];
    }
    return taken;
}

void backlog_free(struct backlog *backlog)
{
    for (struct message *message; (message = backlog_pop_any(backlog));)
        message_free(message);
    free(backlog->queue.items);
}
