/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Generated from src/model/protocols.ts by `npm run generate`; do not edit. */
#ifndef CORAL_PROTOCOL_PROTOCOLS_H
#define CORAL_PROTOCOL_PROTOCOLS_H

enum protocol {
	PROTOCOL_UNKNOWN = 0,
	PROTOCOL_HTTP = 1,
	PROTOCOL_HTTP2 = 2,
	PROTOCOL_GRPC = 3,
	PROTOCOL_POSTGRES = 4,
	PROTOCOL_MYSQL = 5,
	PROTOCOL_REDIS = 6,
	PROTOCOL_MEMCACHED = 7,
	PROTOCOL_MONGODB = 8,
	PROTOCOL_KAFKA = 9,
	PROTOCOL_DNS = 10,
	PROTOCOL_TLS = 11,
	/* An unknown protocol, a process of Coral itself, or a connection whose requests are over: hooks return after one lookup. */
	PROTOCOL_IGNORED = 255,
};

#endif
