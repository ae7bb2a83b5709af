/* Credit in bytes, as in engine/transport/credit.py: the receiver decides how much may be on its way. */
#include "core.h"

#define MEMORY_NS 5000000
#define MAX_WINDOW_BYTES (1 << 20)

/* `count` bytes passed; `amid`: the path was busy before, so the time since the last ones counts. */
void window_passed(struct window *window, int64_t count, int64_t at_ns, bool amid)
{
    if (amid) {
        window->bytes += count;
        window->ns += at_ns - window->last_ns;
        if (window->ns > MEMORY_NS) {
            window->bytes /= 2;
            window->ns /= 2;
        }
    }
    window->last_ns = at_ns;
}

int64_t window_share(const struct window *window, int senders)
{
    int64_t share = window->fixed_bytes;
    if (share <= 0) {
        share = window->ns ? (int64_t)((__int128)window->bytes * window->time_ns / window->ns) : 0;
        if (share < window->least_bytes)
            share = window->least_bytes;
        if (share > MAX_WINDOW_BYTES)
            share = MAX_WINDOW_BYTES;
    }
    share /= senders > 1 ? senders : 1;
    return share > 1 ? share : 1;
}

void credit_announce(struct receiver_credit *credit, int64_t count)
{
    credit->announced += count;
    credit->last = count;
}

static int64_t unhandled(const struct receiver_credit *credit)
{
    return credit->arrived - credit->unfinished - credit->handled;
}

bool credit_withheld(const struct receiver_credit *credit) { return unhandled(credit) > credit->backlog_bytes; }

/* Where the sender's balance would be with all credit that it can have now. */
static int64_t most_balance(const struct receiver_credit *credit, int64_t window_bytes)
{
    int64_t held = credit_withheld(credit) ? unhandled(credit) - credit->backlog_bytes : 0;
    return window_bytes - (credit->announced - credit->arrived) - held;
}

/* Bytes to give back now, 0 if none: the rule of ReceiverCredit.take_grant. */
int64_t credit_take_grant(struct receiver_credit *credit, int64_t window_bytes, bool alone)
{
    int64_t balance = credit->granted - credit->announced, wanted = most_balance(credit, window_bytes);
    int64_t grant = wanted - balance;
    bool tops_up = (alone || window_bytes > credit->last) && 2 * grant >= window_bytes;
    if (grant <= 0 || !(balance > 0 ? tops_up : wanted > 0))
        return 0;
    credit->granted += grant;
    return grant;
}

/* How many GRANT_UNITs to give back with a header that leaves now: it costs nothing, so that any are worth it. */
uint8_t credit_take_along(struct receiver_credit *credit, int64_t window_bytes)
{
    int64_t balance = credit->granted - credit->announced, wanted = most_balance(credit, window_bytes);
    int64_t units = wanted > 0 ? (wanted - balance) / GRANT_UNIT : 0;
    units = units < 0 ? 0 : units > UINT8_MAX ? UINT8_MAX : units;
    credit->granted += units * GRANT_UNIT;
    return (uint8_t)units;
}
