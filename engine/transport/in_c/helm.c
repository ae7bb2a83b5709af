/* Who runs the turns of the loop. While Python's thread waits for events it runs them itself, so that no other thread has
 * to be woken for what it is then told. While it is away for longer, as where others keep the interpreter lock, the
 * deputy runs them, a thread that never takes that lock. It hands the helm back when it has something to tell, and only
 * where Python's thread has come back soon for some time: each change costs the waking of a thread. */
#include "core.h"

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SOON_NS 500000 /* More than Python's thread handles messages for before it looks at the network. */
#define OFTEN 8        /* So often in a row it has to have come back soon. */

bool helm_open(struct core *core)
{
    core->helm = DEPUTY;
    core->deputy_timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    return core->deputy_timer >= 0;
}

/* Lets the deputy look around after so long; 0: not at all. */
static void call_deputy(struct core *core, int64_t after_ns)
{
    struct itimerspec spec = {.it_value = {.tv_nsec = after_ns}};
    timerfd_settime(core->deputy_timer, 0, &spec, NULL);
}

/* Any thread, once `stopping` is set: what the deputy does at the end is due. */
void helm_stop(struct core *core)
{
    loop_wake(core);
    call_deputy(core, 1);
}

/* Python's thread asks for events. The caller of this and of the next three holds `events_lock`. */
void helm_python_comes(struct core *core)
{
    bool soon = now_ns() - core->python_left_ns < SOON_NS;
    core->soon = !soon ? 0 : core->soon < OFTEN ? core->soon + 1 : OFTEN;
    if (core->helm == PYTHON) {
        core->python_inside = true;
        call_deputy(core, 0);
    }
}

/* Whether Python's thread is to run a turn. */
bool helm_is_pythons(struct core *core)
{
    return core->helm == PYTHON && !atomic_load(&core->stopping) && !atomic_load(&core->failed);
}

/* Python's thread has its events. */
void helm_python_goes(struct core *core)
{
    core->python_left_ns = now_ns();
    if (core->helm == PYTHON) {
        core->python_inside = false;
        call_deputy(core, atomic_load(&core->stopping) ? 1 : SOON_NS);
    }
}

/* By the deputy, at the helm, when Python's thread waits and is about to be woken: answers whether that has the helm
 * from now on. */
bool helm_hand_over(struct core *core)
{
    if (core->soon < OFTEN || atomic_load(&core->stopping) || atomic_load(&core->failed))
        return false;
    core->helm = PYTHON;
    core->python_inside = true;
    return true;
}

/* By the deputy: whether it is at the helm. */
bool helm_is_deputys(struct core *core)
{
    pthread_mutex_lock(&core->events_lock);
    bool is = core->helm == DEPUTY;
    pthread_mutex_unlock(&core->events_lock);
    return is;
}

/* By the deputy: sleeps until it is called, and takes the helm where Python's thread has left it for too long. */
void helm_wait_as_deputy(struct core *core)
{
    struct pollfd called = {.fd = core->deputy_timer, .events = POLLIN};
    poll(&called, 1, -1);
    uint64_t times;
    ssize_t ignored = read(core->deputy_timer, &times, sizeof times);
    (void)ignored; /* It fails where Python's thread has come back meanwhile. */
    pthread_mutex_lock(&core->events_lock);
    if (!core->python_inside)
        core->helm = DEPUTY;
    pthread_mutex_unlock(&core->events_lock);
}
