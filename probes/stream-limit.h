/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How much of one payload goes to the ring when a protocol is read in user space: enough to name requests and to tell how they ended. */
#ifndef CORAL_STREAM_LIMIT_H
#define CORAL_STREAM_LIMIT_H

#include "payload.h"

static always_inline u32 stream_limit(const struct connection *connection, u32 direction)
{
	u32 is_asked = is_request(connection, direction);

	switch (connection->protocol) {
	case PROTOCOL_HTTP:
	case PROTOCOL_REDIS:
	case PROTOCOL_POSTGRES:
	case PROTOCOL_MEMCACHED:
	case PROTOCOL_DNS:
		/* Several requests at once: the beginning of each is wanted. */
		return MAX_CHUNKS * CHUNK_BYTES;
	case PROTOCOL_MYSQL:
	case PROTOCOL_KAFKA:
		return is_asked ? 1024 : 256;
	default:
		return is_asked ? 1024 : 512;
	}
}

#endif
