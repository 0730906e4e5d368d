/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A connection is handed over to a decoder while a request is open: that one is told as well, by a record that was made from what was kept of it. */
#ifndef CORAL_MADE_RECORD_H
#define CORAL_MADE_RECORD_H

#include "payload.h"

/* The record's head; the caller writes bytes in the protocol's own words behind it. */
static always_inline void fill_made_record(struct payload_record *record, const struct connection *connection)
{
	fill_record(record, connection);
	record->kind = RECORD_PAYLOAD;
	record->flags = PAYLOAD_MADE | (connection->flags & CONNECTION_TLS ? PAYLOAD_TLS : 0);
	record->direction = connection->role == ROLE_SERVER ? RECEIVED : SENT;
	record->at_ns = connection->queue_ns != ~0ULL ? connection->start_ns + connection->queue_ns : connection->start_ns;
	record->start_ns = connection->start_ns;
}

#endif
