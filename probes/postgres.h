#ifndef CORAL_POSTGRES_H
#define CORAL_POSTGRES_H
#include "request-table.h"
static always_inline u32 postgres_kind(const u8 *bytes, u32 total, u32 length) { (void)bytes;(void)total;(void)length; return 0; }
static always_inline void postgres_data(const struct payload *payload, struct connection *connection, struct scratch *scratch) { (void)payload;(void)connection;(void)scratch; }
#endif
