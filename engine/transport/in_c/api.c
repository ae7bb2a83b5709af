/* What Python calls: engine/transport/in_c/library.py declares it to ctypes. Only ty_wait and ty_join block; the
 * others are called with the interpreter lock held, because letting go of it costs more than they do. */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define FRAGMENT_NS 2000000
#define LEAST_FRAGMENT_BYTES (64 * 1024)
#define WINDOW_NS 1000000
#define MIN_WINDOW_BYTES (20 * 1024)
#define NOTHING_YET INT32_MIN
#define LONGEST_TIMEOUT_NS INT64_C(3600000000000)

struct options {
    int64_t epoch_ns, heartbeat_ns, silence_ns, window_bytes, backlog_bytes;
    int64_t pacer_file, pacer_rate_bps, pacer_chunk_bytes;
    uint64_t egress_state, ingress_state;
};

struct peer_options {
    int32_t index, data, control, paced;
};

/* A message from `peer` has been handled; `slot`: where it was, NONE where Python had placed it. */
struct done {
    int32_t peer, slot;
    int64_t cost_bytes;
};

struct count {
    int32_t peer, layer;
    uint64_t bytes;
};

static void peer_open(struct peer *peer, const struct peer_options *options, const struct options *common)
{
    *peer = (struct peer){
        .index = options->index, .data = options->data, .control = options->control, .paced = options->paced,
        .changed = true, .data_interest = NONE, .control_interest = NONE,
        .backlog = {
            .last = NOTHING_YET,
            .passed = {.time_ns = FRAGMENT_NS, .least_bytes = LEAST_FRAGMENT_BYTES},
        },
        .inbox = {.credit = {.backlog_bytes = common->backlog_bytes}, .low_water = 1, .drained = true},
    };
}

static struct paced_link paced_link(const struct options *options, uint64_t state)
{
    return (struct paced_link){
        .state = (uint8_t *)(uintptr_t)state, .file = (int)options->pacer_file, .rate_bps = options->pacer_rate_bps,
        .chunk_bytes = options->pacer_chunk_bytes,
    };
}

/* A core that owns the peers' file descriptors from now on, the deputy running; NULL where there is no memory, or no
 * thread. */
EXPORT struct core *ty_open(const struct options *options, const struct peer_options *peers, int peer_count)
{
    struct core *core = calloc(1, sizeof *core);
    if (!core)
        return NULL;
    core->peers = calloc((size_t)peer_count + 1, sizeof *core->peers);
    core->peer_count = peer_count;
    for (int i = 0; core->peers && i < peer_count; i++)
        peer_open(&core->peers[i], &peers[i], options);
    core->epoch_ns = options->epoch_ns;
    core->heartbeat_ns = options->heartbeat_ns;
    core->silence_ns = options->silence_ns;
    core->window = (struct window){
        .fixed_bytes = options->window_bytes, .time_ns = WINDOW_NS, .least_bytes = MIN_WINDOW_BYTES,
    };
    core->egress = paced_link(options, options->egress_state);
    core->ingress = paced_link(options, options->ingress_state);
    atomic_store(&core->python_alive, true);
    pthread_mutex_init(&core->lock, NULL);
    pthread_mutex_init(&core->counters_lock, NULL);
    pthread_mutex_init(&core->events_lock, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&core->events_come, &clock);
    core->epoll = epoll_create1(EPOLL_CLOEXEC);
    core->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!core->peers || !slots_open(&core->slots) || core->epoll < 0 || core->wake_fd < 0 || !helm_open(core)
        || pthread_create(&core->thread, NULL, loop_run, core))
        return NULL; /* The process is out of memory or of descriptors: what was taken is of no account. */
    return core;
}

static struct peer *find(struct core *core, int index)
{
    for (int i = 0; i < core->peer_count; i++)
        if (core->peers[i].index == index)
            return &core->peers[i];
    return NULL;
}

/* Queues a message: its header and meta, and pairs of address and length of its payload. `awaited`: Python waits to
 * hear that it has left; without `hurry` a sleeping thread is not woken for it. False: nobody is there any more. */
EXPORT bool ty_send(struct core *core, int index, const uint8_t *frame, size_t frame_bytes, const uint64_t *views,
                    int view_count, uint64_t id, bool awaited, bool hurry)
{
    struct message *message = message_new(frame, frame_bytes, views, view_count);
    if (!message)
        abort();
    message->id = id;
    message->awaited = awaited;
    struct peer *peer = find(core, index);
    pthread_mutex_lock(&core->lock);
    bool dropped = peer->backlog.dropped;
    bool asleep = !dropped && backlog_put(&peer->backlog, message);
    pthread_mutex_unlock(&core->lock);
    if (dropped)
        message_free(message);
    if (asleep && hurry)
        loop_wake(core);
    return !dropped;
}

static void done(struct core *core, int peer, int64_t cost_bytes, int slot)
{
    if (slot != NONE)
        slot_give(core, slot);
    atomic_fetch_add(&find(core, peer)->handled_bytes, cost_bytes);
}

/* Accounts for what Python's thread has handled, then blocks for at most so long until there are events, or until ty_wake;
 * answers how many were written to `out`. */
EXPORT int ty_wait(struct core *core, struct event *out, int most, int64_t timeout_ns, const struct done *handled,
                   int handled_count)
{
    for (int i = 0; i < handled_count; i++)
        done(core, handled[i].peer, handled[i].cost_bytes, handled[i].slot);
    if (handled_count && atomic_load(&core->withheld_count))
        loop_wake(core);
    return events_take(core, out, most, timeout_ns < LONGEST_TIMEOUT_NS ? timeout_ns : LONGEST_TIMEOUT_NS);
}

/* Makes the I/O thread look at what did not hurry. */
EXPORT void ty_nudge(struct core *core) { loop_wake(core); }

/* From now on the loss of this peer fails nothing. */
EXPORT void ty_may_lose(struct core *core, int peer) { atomic_store(&find(core, peer)->expendable, true); }

/* Ends a ty_wait. */
EXPORT void ty_wake(struct core *core) { events_wake_python(core); }

/* Another thread than that which waits has handled a message. */
EXPORT void ty_handled(struct core *core, int peer, int64_t cost_bytes, int slot)
{
    done(core, peer, cost_bytes, slot);
    if (atomic_load(&core->withheld_count))
        loop_wake(core);
}

/* Answers ASK_ALLOW (no views) and ASK_PLACE. False: no memory. */
EXPORT bool ty_answer(struct core *core, int peer, const uint64_t *views, int view_count)
{
    struct answer *answer = malloc(sizeof *answer + (size_t)view_count * sizeof *answer->views);
    if (!answer)
        return false;
    answer->view_count = view_count;
    for (int i = 0; i < view_count; i++) {
        uint64_t pair[2];
        memcpy(pair, views + 2 * i, sizeof pair);
        answer->views[i] = (struct iovec){(void *)(uintptr_t)pair[0], pair[1]};
    }
    atomic_store(&find(core, peer)->answer, answer);
    loop_wake(core);
    return true;
}

EXPORT void ty_ping(struct core *core, int peer)
{
    atomic_store(&find(core, peer)->ping_asked, true);
    loop_wake(core);
}

/* Begins an orderly end; PARTED tells that it is complete. */
EXPORT void ty_part(struct core *core)
{
    atomic_store(&core->closing, true);
    loop_wake(core);
}

EXPORT bool ty_parted(struct core *core, int peer) { return atomic_load(&find(core, peer)->parted); }

/* Ends now; `text`: told to every peer with the party at fault, NULL: nothing is said. */
EXPORT void ty_stop(struct core *core, int64_t culprit, const char *text)
{
    if (atomic_load(&core->stopping))
        return;
    if (text) {
        core->aborting = true;
        core->culprit = culprit;
        strncpy(core->abort_text, text, TEXT_LIMIT_BYTES);
    }
    atomic_store(&core->stopping, true);
    helm_stop(core);
}

/* Waits for the deputy. Only events and counters may be asked for afterwards. */
EXPORT void ty_join(struct core *core) { pthread_join(core->thread, NULL); }

static int copy(const struct peer *peer, const struct tallies *tallies, struct count *out, int most)
{
    int count = 0;
    for (size_t i = 0; i < tallies->room; i++)
        if (tallies->items[i].used && count++ < most)
            out[count - 1] = (struct count){peer->index, tallies->items[i].layer, tallies->items[i].bytes};
    return count;
}

/* Writes the counters of payload to `sent` and `received`, of overhead to `overhead` (two of each peer). Answers how
 * many of each there are in `counts`; where that is more than `most`, ask again with more room. */
EXPORT void ty_counters(struct core *core, struct count *sent, struct count *received, struct count *overhead,
                        int most, int *counts)
{
    counts[0] = counts[1] = 0;
    pthread_mutex_lock(&core->counters_lock);
    for (int i = 0; i < core->peer_count; i++) {
        const struct peer *peer = &core->peers[i];
        int at = counts[0] < most ? counts[0] : most;
        counts[0] += copy(peer, &peer->sent, sent + at, most - at);
        at = counts[1] < most ? counts[1] : most;
        counts[1] += copy(peer, &peer->received, received + at, most - at);
        overhead[2 * i] = (struct count){peer->index, 0, peer->sent_overhead};
        overhead[2 * i + 1] = (struct count){peer->index, 1, peer->received_overhead};
    }
    pthread_mutex_unlock(&core->counters_lock);
}

/* Where the slots are. */
EXPORT uint8_t *ty_slots(struct core *core) { return core->slots.memory; }

EXPORT size_t ty_slots_bytes(void) { return (size_t)SLOTS * SLOT_BYTES; }

/* After ty_join, when no slot is in use any more. */
EXPORT void ty_free(struct core *core)
{
    for (int i = 0; i < core->peer_count; i++) {
        struct peer *peer = &core->peers[i];
        backlog_free(&peer->backlog);
        inbound_free(&peer->inbox);
        free(atomic_load(&peer->answer));
        free(peer->control_out.data);
        free(peer->control_in.data);
        free(peer->sent.items);
        free(peer->received.items);
    }
    close(core->epoll);
    close(core->wake_fd);
    close(core->deputy_timer);
    slots_close(&core->slots);
    free(core->peers);
    free(core->events.items);
    free(core->left.items);
    free(core);
}
