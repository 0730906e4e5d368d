/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Log-linear buckets of nanoseconds; the same arithmetic as bucketOf() in src/base/latency-histogram.ts. */
#ifndef CORAL_HISTOGRAM_H
#define CORAL_HISTOGRAM_H

#include "coral.h"

#define FIRST_OCTAVE 10
#define OCTAVES 26
#define FINE_PARTS_LOG2 4
#define COARSE_PARTS_LOG2 3
#define FINE_BUCKETS (1 + (OCTAVES << FINE_PARTS_LOG2))
#define COARSE_BUCKETS (1 + (OCTAVES << COARSE_PARTS_LOG2))

/* Of a number above 0. There is no instruction for it. */
static always_inline u32 log2_of(u64 value)
{
	u32 result = 0;

	if (value >> 32) {
		value >>= 32;
		result += 32;
	}
	if (value >> 16) {
		value >>= 16;
		result += 16;
	}
	if (value >> 8) {
		value >>= 8;
		result += 8;
	}
	if (value >> 4) {
		value >>= 4;
		result += 4;
	}
	if (value >> 2) {
		value >>= 2;
		result += 2;
	}
	return result + (u32)(value >> 1);
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
