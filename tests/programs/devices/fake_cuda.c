/* The part of CUDA's driver by which programs and libraries determine whose memory an address is. Memory of
 * the "device" is memory without access, or, as on some machines, memory that the processor can reach. With
 * -DONE only the older function exists. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <stddef.h>

enum { MEMORY_TYPE = 2, IS_MANAGED = 8, HOST = 1, DEVICE = 2, INVALID = 1 };

static char *device, *managed;
static size_t device_bytes, managed_bytes;

void *fake_device(size_t bytes, int reachable)
{
    device_bytes = bytes;
    device = mmap(NULL, bytes, reachable ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return device;
}

void *fake_managed(size_t bytes)
{
    managed_bytes = bytes;
    managed = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return managed;
}

static unsigned type_of(const char *at, int *is_managed)
{
    *is_managed = managed && at >= managed && at < managed + managed_bytes;
    return *is_managed || (device && at >= device && at < device + device_bytes) ? DEVICE : 0;
}

int cuPointerGetAttribute(void *value, int attribute, unsigned long long address)
{
    int is_managed;
    unsigned type = type_of((const char *)(size_t)address, &is_managed);
    if (type == 0)
        return INVALID;
    if (attribute == MEMORY_TYPE)
        *(unsigned *)value = type;
    else
        *(unsigned char *)value = (unsigned char)is_managed;
    return 0;
}

#ifndef ONE
int cuPointerGetAttributes(unsigned count, const int *attributes, void **values, unsigned long long address)
{
    int is_managed;
    unsigned type = type_of((const char *)(size_t)address, &is_managed);
    for (unsigned at = 0; at < count; at++)
        if (attributes[at] == MEMORY_TYPE)
            *(unsigned *)values[at] = type;
        else
            *(unsigned char *)values[at] = (unsigned char)is_managed;
    return 0;
}
#endif
