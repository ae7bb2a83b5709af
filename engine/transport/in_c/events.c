/* What Python is told: a queue that one of its threads empties, many events at a time. Events that nobody waits for do
 * not wake that thread: they are told when they are many, or after a short while. */
#include "core.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNSAID 64          /* So many events that nobody waits for are told without waiting for another one. */
#define FULL (1 << 16)     /* With so many, nothing more is read until Python has caught up. */

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void push(struct events *events, const struct event *event)
{
    if (events->count == events->room) {
        size_t room = events->room ? 2 * events->room : 256;
        struct event *items = malloc(room * sizeof *items);
        if (!items)
            abort();
        for (size_t i = 0; i < events->count; i++)
            items[i] = events->items[(events->first + i) % events->room];
        free(events->items);
        *events = (struct events){.items = items, .room = room, .count = events->count};
    }
    events->items[(events->first + events->count++) % events->room] = *event;
}

static bool pop(struct events *events, struct event *out)
{
    if (!events->count)
        return false;
    *out = events->items[events->first];
    events->first = (events->first + 1) % events->room;
    events->count--;
    return true;
}

/* `due`: somebody waits for it. The thread is woken by events_flush. What has left is told many at a time, in its order,
 * which takes less than each with another event. */
void event_put(struct core *core, const struct event *event, bool due)
{
    bool left = event->kind == SENT || event->kind == SENT_RUN || event->kind == DROPPED;
    pthread_mutex_lock(&core->events_lock);
    if (left && !core->left.count)
        core->unsaid_ns = now_ns();
    push(left ? &core->left : &core->events, event);
    core->left_due |= left && (due || core->left.count >= UNSAID);
    core->events_due |= due || core->left_due;
    pthread_mutex_unlock(&core->events_lock);
}

/* Wakes Python's thread if there is something for it; `all`: also for what nobody waits for. Answers whether who runs the
 * turns has to stop doing so. */
bool events_flush(struct core *core, bool all)
{
    pthread_mutex_lock(&core->events_lock);
    bool overdue = all || (core->left.count && now_ns() - core->unsaid_ns > UNSAID_NS);
    core->left_due |= overdue && core->left.count;
    core->events_due |= overdue && (core->left.count || core->events.count);
    bool ends = core->helm == PYTHON && (core->events_due || core->python_woken);
    bool wanted = core->helm == DEPUTY && core->events_due && atomic_load(&core->python_waits);
    if (wanted)
        ends = helm_hand_over(core);
    pthread_mutex_unlock(&core->events_lock);
    if (wanted) /* Without the lock, which who wakes takes first. */
        pthread_cond_signal(&core->events_come);
    return ends;
}

/* Whether there are events that have not woken Python's thread. */
bool events_unsaid(struct core *core)
{
    pthread_mutex_lock(&core->events_lock);
    bool unsaid = (core->left.count || core->events.count) && !core->events_due;
    pthread_mutex_unlock(&core->events_lock);
    return unsaid;
}

bool events_full(struct core *core)
{
    pthread_mutex_lock(&core->events_lock);
    bool full = core->events.count + core->left.count >= FULL;
    pthread_mutex_unlock(&core->events_lock);
    return full;
}

void events_wake_python(struct core *core)
{
    pthread_mutex_lock(&core->events_lock);
    core->python_woken = true;
    bool wanted = atomic_load(&core->python_waits);
    bool inside = core->python_inside;
    pthread_mutex_unlock(&core->events_lock);
    if (wanted)
        pthread_cond_signal(&core->events_come);
    if (inside)
        loop_wake(core);
}

/* Until there is something for Python, or the time is over. */
static void wait_until(struct core *core, int64_t end_ns)
{
    struct timespec end = {.tv_sec = end_ns / 1000000000, .tv_nsec = end_ns % 1000000000};
    bool over = false;
    while (!over && !core->events_due && !core->python_woken) {
        if (helm_is_pythons(core)) {
            pthread_mutex_unlock(&core->events_lock);
            loop_turn(core, end_ns);
            over = now_ns() >= end_ns;
            pthread_mutex_lock(&core->events_lock);
        } else {
            atomic_store(&core->python_waits, true);
            over = pthread_cond_timedwait(&core->events_come, &core->events_lock, &end) == ETIMEDOUT;
            atomic_store(&core->python_waits, false);
        }
    }
}

/* In Python's thread: the next events, at most `most`, after waiting for them until the time is over. */
int events_take(struct core *core, struct event *out, int most, int64_t timeout_ns)
{
    atomic_store(&core->python_alive, true);
    pthread_mutex_lock(&core->events_lock);
    bool was_full = core->events.count + core->left.count >= FULL;
    helm_python_comes(core);
    if (timeout_ns > 0 || helm_is_pythons(core))
        wait_until(core, now_ns() + timeout_ns);
    core->python_woken = false;
    int count = 0;
    core->left_due |= core->left.count && atomic_load(&core->stopping);
    while (count < most && ((core->left_due && pop(&core->left, &out[count])) || pop(&core->events, &out[count])))
        count++;
    core->left_due &= core->left.count > 0;
    core->events_due = core->left_due || core->events.count;
    helm_python_goes(core);
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
