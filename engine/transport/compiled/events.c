/* What Python is told: a queue that one of its threads empties, many events at a time. Events that nobody waits for do
 * not wake that thread: they go with the next one that does, or after a short while. */
#include "core.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNSAID 64          /* So many events that nobody waits for wake the thread all the same. */
#define FULL (1 << 16)     /* With so many, nothing more is read until Python has caught up. */

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void grow(struct core *core)
{
    size_t room = core->event_room ? 2 * core->event_room : 256;
    struct event *events = malloc(room * sizeof *events);
    if (!events)
        abort();
    for (size_t i = 0; i < core->event_count; i++)
        events[i] = core->events[(core->event_first + i) % core->event_room];
    free(core->events);
    core->events = events;
    core->event_first = 0;
    core->event_room = room;
}

/* `due`: somebody waits for it. The thread is woken by events_flush. */
void event_put(struct core *core, const struct event *event, bool due)
{
    pthread_mutex_lock(&core->events_lock);
    if (core->event_count == core->event_room)
        grow(core);
    core->events[(core->event_first + core->event_count++) % core->event_room] = *event;
    core->events_due |= due || core->event_count >= UNSAID;
    pthread_mutex_unlock(&core->events_lock);
}

/* Wakes Python's thread if there is something for it; `all`: also for what nobody waits for. */
void events_flush(struct core *core, bool all)
{
    pthread_mutex_lock(&core->events_lock);
    core->events_due |= all && core->event_count;
    bool wanted = core->events_due && atomic_load(&core->python_waits);
    pthread_mutex_unlock(&core->events_lock);
    if (wanted) /* Without the lock, which who wakes takes first. */
        pthread_cond_signal(&core->events_come);
}

/* Whether there are events that have not woken Python's thread. */
bool events_unsaid(struct core *core)
{
    pthread_mutex_lock(&core->events_lock);
    bool unsaid = core->event_count && !core->events_due;
    pthread_mutex_unlock(&core->events_lock);
    return unsaid;
}

bool events_full(struct core *core)
{
    pthread_mutex_lock(&core->events_lock);
    bool full = core->event_count >= FULL;
    pthread_mutex_unlock(&core->events_lock);
    return full;
}

void events_wake_python(struct core *core)
{
    pthread_mutex_lock(&core->events_lock);
    core->python_woken = true;
    bool wanted = atomic_load(&core->python_waits);
    pthread_mutex_unlock(&core->events_lock);
    if (wanted)
        pthread_cond_signal(&core->events_come);
}

static void wait_until(struct core *core, int64_t end_ns)
{
    struct timespec end = {.tv_sec = end_ns / 1000000000, .tv_nsec = end_ns % 1000000000};
    atomic_store(&core->python_waits, true);
    while (!core->events_due && !core->python_woken)
        if (pthread_cond_timedwait(&core->events_come, &core->events_lock, &end) == ETIMEDOUT)
            break;
    atomic_store(&core->python_waits, false);
}

/* In Python's thread: the next events, at most `most`, after waiting for them until the time is over. */
int events_take(struct core *core, struct event *out, int most, int64_t timeout_ns)
{
    atomic_store(&core->python_alive, true);
    pthread_mutex_lock(&core->events_lock);
    bool was_full = core->event_count >= FULL;
    if (timeout_ns > 0)
        wait_until(core, now_ns() + timeout_ns);
    core->python_woken = false;
    int count = 0;
    for (; count < most && core->event_count; count++, core->event_count--) {
        out[count] = core->events[core->event_first];
        core->event_first = (core->event_first + 1) % core->event_room;
    }
    core->events_due = core->event_count > 0;
    pthread_mutex_unlock(&core->events_lock);
    if (was_full)
        loop_wake(core);
    return count;
}

/* The first failure ends everything: Python is told, and hangs up. `count` as the event's kind says. */
void fail(struct core *core, enum event_kind kind, int peer, int64_t count, const char *format, ...)
{
    if (core->failed)
        return;
    core->failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(core->text, sizeof core->text, format, arguments);
    va_end(arguments);
    struct event event = {
        .kind = kind, .peer = peer, .slot = NONE, .count = count, .data = (uintptr_t)core->text,
        .meta_bytes = (int32_t)strlen(core->text),
    };
    event_put(core, &event, true);
    events_flush(core, true);
}
