/* Byte counters per peer, direction and layer, advanced chunk by chunk. */
#include "core.h"

#include <stdlib.h>

static struct tally *find(struct tally *items, size_t room, int32_t layer)
{
    size_t at = (uint32_t)layer * 2654435761u & (room - 1);
    while (items[at].used && items[at].layer != layer)
        at = (at + 1) & (room - 1);
    return &items[at];
}

static void grow(struct tallies *tallies)
{
    size_t room = tallies->room ? 2 * tallies->room : 64;
    struct tally *items = calloc(room, sizeof *items);
    if (!items)
        abort();
    for (size_t i = 0; i < tallies->room; i++)
        if (tallies->items[i].used)
            *find(items, room, tallies->items[i].layer) = tallies->items[i];
    free(tallies->items);
    tallies->items = items;
    tallies->room = room;
}

static void add(struct tallies *tallies, int32_t layer, uint64_t bytes)
{
    if (2 * (tallies->count + 1) > tallies->room)
        grow(tallies);
    struct tally *tally = find(tallies->items, tallies->room, layer);
    if (!tally->used) {
        *tally = (struct tally){.layer = layer, .used = true};
        tallies->count++;
    }
    tally->bytes += bytes;
}

void count_sent(struct core *core, struct peer *peer, int32_t layer, uint64_t payload, uint64_t overhead)
{
    pthread_mutex_lock(&core->counters_lock);
    if (payload)
        add(&peer->sent, layer, payload);
    peer->sent_overhead += overhead;
    pthread_mutex_unlock(&core->counters_lock);
}

void count_received(struct core *core, struct peer *peer, int32_t layer, uint64_t payload, uint64_t overhead)
{
    pthread_mutex_lock(&core->counters_lock);
    if (payload)
        add(&peer->received, layer, payload);
    peer->received_overhead += overhead;
    pthread_mutex_unlock(&core->counters_lock);
}
