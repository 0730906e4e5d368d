/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How many bytes of a payload go to the ring for protocols that user space decodes: enough to name requests and to see how they ended, less
 * if Coral costs too much. Part of requests.bpf.c.
 */
#ifndef CORAL_REQUESTS_STREAM_LIMIT_H
#define CORAL_REQUESTS_STREAM_LIMIT_H

#include "requests/payload.h"

static always_inline u32 stream_limit(const struct connection *connection, u32 direction)
{
	u32 is_from_client = is_request(connection, direction);

	switch (connection->protocol) {
	case PROTOCOL_HTTP:
	case PROTOCOL_REDIS:
	case PROTOCOL_POSTGRES:
	case PROTOCOL_MEMCACHED:
	case PROTOCOL_DNS:
		/* Several requests in one payload: the start of each is needed. */
		return MAX_CHUNKS * CHUNK_BYTES;
	case PROTOCOL_MYSQL:
	case PROTOCOL_KAFKA:
		return is_from_client ? 1024 : 256;
	default:
		return is_from_client ? 1024 : 512;
	}
}

/* Applies the step of the budget ladder (budget-ladder.ts) from struct controls. 0: the connection is sampled out until it ends. */
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
