/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is left out of connections that go through the ring when watching costs too much: src/traffic/ladder.ts decides, struct controls tells. */
#ifndef CORAL_LADDER_H
#define CORAL_LADDER_H

#include "connection.h"

/* The most bytes of a payload that go to the ring; 0 when the connection is left out, from now on until it ends. */
static always_inline u32 ladder_limit(struct connection *connection, u32 limit)
{
	struct controls *control = controls_now();

	if (!control)
		return limit;
	if ((connection->id & control->sample_mask) || control->skipped_protocols & 1U << (connection->protocol & 31)) {
		connection->protocol = PROTOCOL_IGNORED;
		count_loss(LOSS_SAMPLED_OUT);
		return 0;
	}
	return control->stream_bytes && control->stream_bytes < limit ? control->stream_bytes : limit;
}

#endif
