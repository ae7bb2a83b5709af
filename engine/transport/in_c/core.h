/* What the files of the data plane in C share. Each file says in its first lines what it does.
 *
 * Who may touch what: a peer's backlog (what waits to be sent) is guarded by `core.lock`; counters by
 * `core.counters_lock`; events for Python, and who runs the turns, by `core.events_lock`. Everything else belongs to the
 * thread that runs the turns, Python's or the deputy (helm.c), which comments call the I/O thread.
 * No lock is held during a system call that may wait.
 */
#ifndef TRAINYARD_CORE_H
#define TRAINYARD_CORE_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define HEADER_BYTES 52
#define FRAGMENT_UNIT 1024
#define GRANT_UNIT 1024
#define META_LIMIT_BYTES (1u << 24)
#define VIEWS 64
#define TURN_BYTES (1 << 20)
#define SLOTS 512 /* So many short messages wait for Python before it is asked where they belong, as long ones are. */
#define SLOT_BYTES (256 * 1024)
#define SLOT_ALIGNMENT 64
#define TEXT_LIMIT_BYTES 4000
#define NONE (-1)
#define UNSAID_NS 10000000 /* How long an event that nobody waits for may stay unsaid. */

/* The fixed header of a message as it travels; see engine/transport/message.py. */
struct __attribute__((packed)) header {
    uint8_t magic, kind, lane, grant;
    uint16_t origin, fragment;
    uint32_t step, unit, part;
    int32_t layer, priority;
    int64_t queued_ns;
    uint64_t payload_bytes;
    uint32_t version, meta_bytes;
};
_Static_assert(sizeof(struct header) == HEADER_BYTES, "the header is 52 bytes on the wire");

/* A control frame as it travels; see engine/transport/control.py. */
struct __attribute__((packed)) frame {
    uint8_t kind, padding;
    uint16_t text_bytes;
    uint32_t more_padding;
    int64_t a, b;
};

enum control { HEARTBEAT = 1, CREDIT, PING, PONG, GOODBYE, FAREWELL, ABORT };

/* What Python is told; engine/transport/in_c/loop.py reads these. */
enum event_kind {
    MESSAGE = 1, /* A short message has come whole, into a slot. */
    PLACED,      /* A long message has come whole, to where Python said. */
    ASK_ALLOW,   /* A long message with meta begins: may it? */
    ASK_PLACE,   /* A long message begins: where does it belong? */
    RECEIVED_RUN,
    SENT_RUN,    /* A message was interrupted after `count` bytes of payload. */
    SENT,        /* A message has left whole. */
    PONGED,
    PARTED,
    LOST,        /* A peer is lost: `text` says why. */
    ABORTED,     /* A peer gave up: `count` is the party at fault. */
    BROKEN,      /* A peer sent what the protocol does not allow. */
    DROPPED,     /* A message for a lost peer has not left and never will. */
};

#define TOLERATED 1 /* As the `slot` of LOST and ABORTED: the peer may be lost, and nothing fails. */

struct __attribute__((packed)) event {
    int32_t kind, peer, slot, meta_bytes;
    uint64_t id;
    int64_t count, start_ns, end_ns;
    uint64_t data; /* Address of the meta or of the text. */
    struct header header;
    uint32_t padding;
};

/* A queue in a ring that grows. */
struct events {
    struct event *items;
    size_t first, count, room;
};

/* A message that waits to be sent, or is being sent. The payload is the caller's memory. */
struct message {
    struct message *next; /* In the stack of interrupted ones. */
    uint64_t id, sequence;
    int32_t layer, priority;
    bool awaited; /* Python waits to hear that it has left. */
    int64_t start_ns, run_bytes;
    uint64_t payload_left, fragment_left;
    uint8_t *frame; /* What is left of the header and the meta. */
    size_t frame_left;
    uint8_t between[HEADER_BYTES]; /* The header of a fragment after the first. */
    int view, view_count;
    struct iovec *views;
};

struct heap {
    struct message **items;
    size_t count, room;
    uint64_t sequence;
};

/* How many bytes pass in a short time; see engine/transport/credit.py. */
struct window {
    int64_t fixed_bytes, time_ns, least_bytes, bytes, ns, last_ns;
};

/* What waits for one peer; see engine/transport/backlog.py. Guarded by `core.lock`. */
struct backlog {
    struct heap queue;
    struct message *current, *interrupted;
    int32_t last;
    int64_t balance_bytes;
    bool overdrawn, dropped;
    struct window passed;
};

/* The receiver's side of one sender's credit; see engine/transport/credit.py. */
struct receiver_credit {
    int64_t backlog_bytes, announced, last, arrived, unfinished, handled, granted;
};

/* A message of which some has come. */
struct incoming {
    struct incoming *next; /* In the stack of interrupted ones. */
    struct header header;
    uint64_t id;
    int slot; /* NONE: Python says where it belongs. */
    uint8_t *meta;
    struct answer *answer;
    struct iovec *targets; /* In the answer, or `in_slot`. */
    int target, target_count;
    struct iovec in_slot;
    uint64_t left, run_left, unfinished;
    int64_t start_ns;
};

/* Where a message belongs: a list of views. */
struct answer {
    int view_count;
    struct iovec views[];
};

struct inbox {
    struct receiver_credit credit;
    uint8_t fixed[HEADER_BYTES];
    size_t fixed_got, meta_got;
    int64_t start_ns;
    struct incoming *current, *interrupted;
    enum { FIXED, ASKING, META, PAYLOAD } state;
    uint64_t fragment_left;
    bool drained;
    int low_water;
};

struct bytes {
    uint8_t *data;
    size_t count, room;
};

struct tally {
    int32_t layer;
    bool used;
    uint64_t bytes;
};

/* Bytes of payload by layer: a hash table with open addressing. */
struct tallies {
    struct tally *items;
    size_t count, room;
};

struct peer {
    int index, data, control;
    bool paced;
    struct backlog backlog;
    bool draining;
    struct inbox inbox;
    struct bytes control_out, control_in;
    int data_interest, control_interest; /* Events that epoll waits for; NONE: not registered. */
    bool changed, data_broken, full;
    bool may_be_due; /* Something has come from it since it was given credit. */
    uint64_t served, read;
    int64_t heard_ns, data_heard_ns, data_ended_ns; /* 0: never. */
    char data_end_reason[200];
    bool left, goodbye_said, farewell_said, confirmed, gone, withheld;
    _Atomic int64_t handled_bytes; /* Finished by Python and not yet accounted for. */
    atomic_bool ping_asked;
    struct answer *_Atomic answer; /* Where Python wants what it was asked about; NULL: it has not said. */
    atomic_bool parted, expendable;
    char loss[TEXT_LIMIT_BYTES + 1]; /* Why it was lost. */
    struct tallies sent, received;
    uint64_t sent_overhead, received_overhead;
};

struct paced_link {
    uint8_t *state; /* Two 64-bit numbers in the pacer's file; NULL: no limit. */
    int file;
    int64_t rate_bps, chunk_bytes;
};

struct slots {
    uint8_t *memory;
    int *free;
    int free_count;
};

struct core {
    pthread_t thread;
    pthread_mutex_t lock, counters_lock, events_lock;
    pthread_cond_t events_come;
    struct peer *peers;
    int peer_count, epoll, wake_fd;
    atomic_bool sleeping, pending, stopping, closing, parted;
    atomic_int withheld_count;
    struct window window;
    struct paced_link egress, ingress;
    int64_t egress_at_ns, ingress_at_ns, heartbeat_ns, silence_ns, awake_ns, epoch_ns;
    uint64_t turn_number, incoming_number;
    struct slots slots;
    atomic_bool failed;
    char text[TEXT_LIMIT_BYTES + 1]; /* Of the failure. */
    int64_t next_beat_ns;
    /* The events. */
    struct events left, events; /* What tells of messages that have left, and all other. */
    int64_t unsaid_ns; /* Since when something has left that Python was not told of. */
    bool left_due, events_due, python_woken;
    atomic_bool python_waits, python_alive;
    /* Who runs the turns: helm.c. Guarded by `events_lock`. */
    enum { DEPUTY, PYTHON } helm;
    bool python_inside; /* Python's thread is at the helm, and not away. */
    int64_t python_left_ns;
    int soon, deputy_timer;
    /* What the peers are told at the end. */
    bool aborting;
    int64_t culprit;
    char abort_text[TEXT_LIMIT_BYTES + 1];
};

int64_t now_ns(void);

/* credit.c */
void window_passed(struct window *, int64_t count, int64_t at_ns, bool amid);
int64_t window_share(const struct window *, int senders);
void credit_announce(struct receiver_credit *, int64_t count);
bool credit_withheld(const struct receiver_credit *);
int64_t credit_take_grant(struct receiver_credit *, int64_t window_bytes, bool alone);
uint8_t credit_take_along(struct receiver_credit *, int64_t window_bytes);

/* backlog.c */
struct message *message_new(const uint8_t *frame, size_t frame_bytes, const uint64_t *views, int view_count);
void message_free(struct message *);
bool message_interruptible(const struct message *);
int64_t message_left_bytes(const struct message *);
int message_next_views(const struct message *, int64_t limit, struct iovec *out, int most);
uint64_t message_advance(struct message *, uint64_t count);
bool backlog_put(struct backlog *, struct message *);
struct message *backlog_pop_any(struct backlog *);
bool backlog_empty(const struct backlog *);
bool backlog_urgency(const struct backlog *, int32_t *priority);
int64_t backlog_next_bytes(const struct backlog *);
struct message *backlog_choose(struct core *, struct peer *);
struct message *backlog_choose_with(struct backlog *, int64_t room, int views);
void backlog_put_back(struct backlog *, struct message *);
bool backlog_granted(struct backlog *, int64_t count);
void backlog_free(struct backlog *);

/* outbound.c */
bool wants_to_write(struct core *, struct peer *, int32_t *priority);
ssize_t outbound_write(struct core *, struct peer *, int64_t limit);
int outbound_write_on(struct core *, struct peer *, int64_t limit);
void outbound_drop(struct core *, struct peer *);
void outbound_report(struct core *, struct peer *, struct message *, enum event_kind);

/* inbound.c */
#define ENDED (-1)
#define ERROR (-2)
ssize_t inbound_read(struct core *, struct peer *, int64_t limit);
ssize_t inbound_read_on(struct core *, struct peer *, int64_t limit);
bool inbound_in_message(const struct peer *);
int32_t inbound_urgency(const struct peer *);
int64_t inbound_next_bytes(const struct peer *, int64_t limit);
void inbound_wake_after(struct peer *, int64_t share, int64_t window);
void inbound_answered(struct core *, struct peer *);
bool inbound_waits_for_python(const struct peer *);
void inbound_free(struct inbox *);

/* control.c */
void control_put(struct peer *, enum control, int64_t a, int64_t b, const char *text);
void control_flush(struct core *, struct peer *);
void control_read(struct core *, struct peer *);
void control_grant(struct core *, struct peer *, int senders);
int control_senders(const struct core *, const struct peer *one, int64_t at_ns);
void control_granted(struct core *, struct peer *, int64_t count);
uint8_t control_grant_along(struct core *, struct peer *);
void control_return_credit(struct core *);
void control_beat(struct core *, int64_t at_ns);
void control_awake(struct core *, int64_t at_ns);
void control_parting(struct core *, struct peer *);

/* pacing.c */
int64_t pacing_acquire(const struct paced_link *, int64_t count, int64_t at_ns);
void pacing_refund(const struct paced_link *, int64_t count);

/* counters.c */
void count_sent(struct core *, struct peer *, int32_t layer, uint64_t payload, uint64_t overhead);
void count_received(struct core *, struct peer *, int32_t layer, uint64_t payload, uint64_t overhead);

/* events.c */
void event_put(struct core *, const struct event *, bool due);
bool events_flush(struct core *, bool all);
bool events_unsaid(struct core *);
bool events_full(struct core *);
int events_take(struct core *, struct event *out, int most, int64_t timeout_ns);
void events_wake_python(struct core *);
void fail(struct core *, enum event_kind, int peer, int64_t count, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* helm.c */
bool helm_open(struct core *);
void helm_stop(struct core *);
void helm_python_comes(struct core *);
bool helm_is_pythons(struct core *);
void helm_python_goes(struct core *);
bool helm_hand_over(struct core *);
bool helm_is_deputys(struct core *);
void helm_wait_as_deputy(struct core *);

/* slots.c */
bool slots_open(struct slots *);
void slots_close(struct slots *);
size_t slot_payload_at(size_t meta_bytes);
uint8_t *slot_memory(const struct core *, int slot);
int slot_take(struct core *);
void slot_give(struct core *, int slot);

/* loop.c */
void *loop_run(void *core);
void loop_turn(struct core *, int64_t end_ns);
void loop_wake(struct core *);

#endif
