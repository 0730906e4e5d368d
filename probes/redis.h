#ifndef CORAL_REDIS_H
#define CORAL_REDIS_H
#include "request-table.h"
static always_inline u32 redis_kind(const struct payload *payload, const struct connection *connection, struct scratch *scratch) { (void)payload;(void)connection;(void)scratch; return 0; }
static always_inline void redis_data(const struct payload *payload, struct connection *connection, struct scratch *scratch) { (void)payload;(void)connection;(void)scratch; }
#endif
