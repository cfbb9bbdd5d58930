/* Random numbers of tests that draw what to do: the same on all ranks, so that each knows what every rank
 * does. */
#ifndef TUTTI_TEST_RANDOM_H
#define TUTTI_TEST_RANDOM_H

#include <stdint.h>

static uint64_t seed = 1, state;
/* Number of random numbers drawn, for programs that count. */
static uint64_t operation __attribute__((unused));

static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Draws a number below `below`, the same on all ranks of the world. */
static unsigned draw(unsigned below)
{
    state = mix(state);
    return (unsigned)((state >> 11) % below);
}

#endif
