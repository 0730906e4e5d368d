/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Processes whose payloads are copied besides being counted; src/traffic/capture.ts says which, and until when. */
#ifndef CORAL_CAPTURE_H
#define CORAL_CAPTURE_H

#include "payload.h"

/* The lowest bit of a time in capture_targets: bodies are wanted too. */
#define CAPTURE_BODIES 1

/* The time until which this process is captured, or 0. */
static always_inline u64 captured_until(u32 tgid, u64 at_ns)
{
	struct controls *control = controls_now();
	u64 *until;

	if (!control || !control->capturing)
		return 0;
	until = bpf_map_lookup_elem(&capture_targets, &tgid);
	return until && *until > at_ns ? *until : 0;
}

#endif
