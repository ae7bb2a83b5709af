/* The software rate limit of engine/transport/pacing.py: one clock per host and direction in a file that all processes
 * of the host share. */
#include "core.h"

#include <string.h>
#include <sys/file.h>

#define CATCH_UP_NS 10000000

struct state {
    int64_t free_at_ns, waited_for;
};

static int64_t duration_ns(const struct paced_link *link, int64_t count)
{
    return (int64_t)((__int128)count * 8 * 1000000000 / link->rate_bps);
}

/* Occupies the link for `count` bytes: 0 if they may pass now, else the time to ask again. */
int64_t pacing_acquire(const struct paced_link *link, int64_t count, int64_t at_ns)
{
    struct state state;
    int64_t again_ns = 0;
    flock(link->file, LOCK_EX);
    memcpy(&state, link->state, sizeof state);
    if (state.free_at_ns > at_ns) {
        state.waited_for = 1;
        again_ns = state.free_at_ns;
    } else {
        int64_t earliest_ns = at_ns - CATCH_UP_NS;
        int64_t start_ns = !state.waited_for ? at_ns : state.free_at_ns > earliest_ns ? state.free_at_ns : earliest_ns;
        state.free_at_ns = start_ns + duration_ns(link, count);
        state.waited_for = state.waited_for && state.free_at_ns < at_ns;
    }
    memcpy(link->state, &state, sizeof state);
    flock(link->file, LOCK_UN);
    return again_ns;
}

/* Gives back what was acquired and did not pass. */
void pacing_refund(const struct paced_link *link, int64_t count)
{
    if (!count)
        return;
    struct state state;
    flock(link->file, LOCK_EX);
    memcpy(&state, link->state, sizeof state);
    state.free_at_ns -= duration_ns(link, count);
    memcpy(link->state, &state, sizeof state);
    flock(link->file, LOCK_UN);
}
