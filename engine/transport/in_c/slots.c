/* Memory for short messages: equal slots that are used again in the order last in, first out, so that few of them are
 * in use and those are in the processor's cache. A slot holds the meta and, aligned for vector sums, the payload. */
#include "core.h"

#include <stdlib.h>
#include <sys/mman.h>

bool slots_open(struct slots *slots)
{
    slots->memory = mmap(NULL, (size_t)SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slots->memory == MAP_FAILED)
        return false;
    slots->free = malloc(SLOTS * sizeof *slots->free);
    for (slots->free_count = 0; slots->free && slots->free_count < SLOTS; slots->free_count++)
        slots->free[slots->free_count] = SLOTS - 1 - slots->free_count;
    return slots->free != NULL;
}

void slots_close(struct slots *slots)
{
    free(slots->free);
    munmap(slots->memory, (size_t)SLOTS * SLOT_BYTES);
}

size_t slot_payload_at(size_t meta_bytes) { return (meta_bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT; }

uint8_t *slot_memory(const struct core *core, int slot) { return core->slots.memory + (size_t)slot * SLOT_BYTES; }

/* NONE where all are in use. */
int slot_take(struct core *core)
{
    pthread_mutex_lock(&core->lock);
    int slot = core->slots.free_count ? core->slots.free[--core->slots.free_count] : NONE;
    pthread_mutex_unlock(&core->lock);
    return slot;
}

void slot_give(struct core *core, int slot)
{
    pthread_mutex_lock(&core->lock);
    core->slots.free[core->slots.free_count++] = slot;
    pthread_mutex_unlock(&core->lock);
}
