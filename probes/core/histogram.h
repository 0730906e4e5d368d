/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Log-linear latency buckets in nanoseconds, for the request table of requests.bpf.c. Same arithmetic as bucketOf() in
 * latency-histogram.ts.
 */
#ifndef CORAL_CORE_HISTOGRAM_H
#define CORAL_CORE_HISTOGRAM_H

#include "core/bpf.h"

/* Octaves from 2^10 ns (1 us) to 2^36 ns (69 s), each of 16 (fine) or 8 (coarse) buckets. Bucket 0 is below the first octave. */
#define FIRST_OCTAVE 10
#define OCTAVES 26
#define FINE_PARTS_LOG2 4
#define COARSE_PARTS_LOG2 3
#define FINE_BUCKETS (1 + (OCTAVES << FINE_PARTS_LOG2))
#define COARSE_BUCKETS (1 + (OCTAVES << COARSE_PARTS_LOG2))

/* 1 if value > limit, both below 2^63. Without a branch: latencies vary too much for branch prediction. */
static always_inline u32 is_above(u64 value, u64 limit)
{
	u64 difference = limit - value;

	asm volatile("%0 >>= 63" : "+r"(difference));
	return difference;
}

/* Binary logarithm of a number in [1, 2^63). BPF has no instruction for it. */
static always_inline u32 log2_of(u64 value)
{
	u32 result = 0, step;

	if (value >> 32) {
		value >>= 32;
		result = 32;
	}
	step = is_above(value, 0xffff) << 4;
	value >>= step;
	result += step;
	step = is_above(value, 0xff) << 3;
	value >>= step;
	result += step;
	step = is_above(value, 0xf) << 2;
	value >>= step;
	result += step;
	step = is_above(value, 3) << 1;
	value >>= step;
	return result + step + (u32)(value >> 1);
}

static always_inline u32 latency_bucket(u64 ns, u32 parts_log2, u32 buckets)
{
	u32 octave, bucket;

	if (ns < (1 << FIRST_OCTAVE))
		return 0;
	octave = log2_of(ns);
	bucket = 1 + ((octave - FIRST_OCTAVE) << parts_log2) + ((u32)(ns >> (octave - parts_log2)) & ((1 << parts_log2) - 1));
	return bucket < buckets ? bucket : buckets - 1;
}

#endif
