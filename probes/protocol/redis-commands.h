/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Commands of Redis by the fingerprint of their verb: those that identify a Redis client, and those after which the server pushes. Part of
 * requests.bpf.c.
 */
#ifndef CORAL_PROTOCOL_REDIS_COMMANDS_H
#define CORAL_PROTOCOL_REDIS_COMMANDS_H

#include "core/bpf.h"

/* Verbs that distinguish a command from an array in a response, if it is not known which side opened the connection. */
static always_inline int redis_is_command(u64 verb)
{
	switch (verb) {
	case 0xea7e631998067e17ULL: /* GET */
	case 0x97d7c719fa3e7f03ULL: /* SET */
	case 0xe036641991be66aaULL: /* DEL */
	case 0xa3d5a76172b2ad32ULL: /* UNLINK */
	case 0x315b3f0307039c5dULL: /* EXISTS */
	case 0xf851e3c3004aba02ULL: /* EXPIRE */
	case 0x6cbad219e1e0edfbULL: /* TTL */
	case 0x0ad8b6d0deda950fULL: /* INCR */
	case 0x2bd59fc4adfeb44aULL: /* INCRBY */
	case 0xbaa6c172a66337f3ULL: /* DECR */
	case 0x91d74faf896f2da4ULL: /* MGET */
	case 0xe4b45baf27657a78ULL: /* MSET */
	case 0x99d67c8b7d68f9deULL: /* SETEX */
	case 0x99ee468b7d7d2ffdULL: /* SETNX */
	case 0x75962cc3fdaa7eedULL: /* GETSET */
	case 0x389a05d8f3e8f781ULL: /* HGET */
	case 0xd08d19d8b8f1fbcdULL: /* HSET */
	case 0xfe0998f9a05a1f7aULL: /* HMGET */
	case 0xab2bfcfa0262ddf6ULL: /* HMSET */
	case 0xc75b3102a01772f8ULL: /* HGETALL */
	case 0x528f22d9029a4618ULL: /* HDEL */
	case 0x551a79e9cb46368cULL: /* HINCRBY */
	case 0x87b82db28cc0b6f7ULL: /* HEXISTS */
	case 0xbd5fd091668a3eafULL: /* LPUSH */
	case 0x68d90006462f4dcdULL: /* RPUSH */
	case 0x2b4696b59800d7aeULL: /* LPOP */
	case 0x2bddd72c27112d60ULL: /* RPOP */
	case 0x5e648105e349048eULL: /* BLPOP */
	case 0xb21b417787785fc0ULL: /* BRPOP */
	case 0x09151917f6cb9240ULL: /* LRANGE */
	case 0x7dcc4cb535adcf8aULL: /* LLEN */
	case 0x19d191b58e13da75ULL: /* LREM */
	case 0x896c9ab52e84e8d3ULL: /* LTRIM */
	case 0x1db1f4242308b619ULL: /* SADD */
	case 0x8e51102462d45226ULL: /* SREM */
	case 0xbfdb041fb883cefdULL: /* SMEMBERS */
	case 0x2df66ad805258210ULL: /* SISMEMBER */
	case 0x12a3db56c2b1f3b8ULL: /* SCARD */
	case 0x5756626cad05f8acULL: /* ZADD */
	case 0xfd9a966d0bad5e4fULL: /* ZREM */
	case 0xdb28224ddbabda3aULL: /* ZRANGE */
	case 0x4ee73808203bacffULL: /* ZRANGEBYSCORE */
	case 0x09f8e7f58e2b559dULL: /* ZSCORE */
	case 0xda7cc1bac7570de7ULL: /* ZCARD */
	case 0xe0fdb2c7f2d77442ULL: /* ZINCRBY */
	case 0xd422e11929477769ULL: /* PING */
	case 0x7104e66cc58a5d24ULL: /* ECHO */
	case 0xf10fbb8bd9f3d50fULL: /* AUTH */
	case 0xa0b400b98ea8182bULL: /* HELLO */
	case 0x7da73cc0f538da0dULL: /* SELECT */
	case 0x0ac7a9d0decc0bc5ULL: /* INFO */
	case 0x630f7f169229d8e7ULL: /* CONFIG */
	case 0x2d51d3f88079ec1eULL: /* CLIENT */
	case 0x24c56f18526275f2ULL: /* COMMAND */
	case 0x0c4e0624192a5328ULL: /* SCAN */
	case 0xeb6288df10a7e22dULL: /* KEYS */
	case 0xbc85fafae00e9f2dULL: /* TYPE */
	case 0xa3893cb318a67e12ULL: /* MULTI */
	case 0x25649f6d2b4547dcULL: /* EXEC */
	case 0xd8659e1844360ea1ULL: /* DISCARD */
	case 0xd03a0bbf90d295e8ULL: /* WATCH */
	case 0x15b7106d22db50afULL: /* EVAL */
	case 0x61d427a5e70d724fULL: /* EVALSHA */
	case 0x192fba5c022406d2ULL: /* XADD */
	case 0x01d0c7d4842c924bULL: /* XREAD */
	case 0x15037e71fe368702ULL: /* XREADGROUP */
	case 0x191ebd5c021598b8ULL: /* XACK */
	case 0x9f718642e842b788ULL: /* PUBLISH */
	case 0xdcc323aac4f6ce23ULL: /* SUBSCRIBE */
	case 0x05f7b4a732a32f11ULL: /* PSUBSCRIBE */
	case 0x3206621315ca57b6ULL: /* QUIT */
		return 1;
	}
	return 0;
}

/* True for commands that turn the connection into a replication stream. */
static always_inline int redis_is_sync(u64 verb)
{
	return verb == 0xef6afd249a57ec3aULL /* SYNC */ || verb == 0xe95c7378383cd5a8ULL; /* PSYNC */
}

/* True for commands after which the server pushes messages. */
static always_inline int redis_starts_push(u64 verb)
{
	if (redis_is_sync(verb))
		return 1;
	switch (verb) {
	case 0xdcc323aac4f6ce23ULL: /* SUBSCRIBE */
	case 0x05f7b4a732a32f11ULL: /* PSUBSCRIBE */
	case 0x89cfa822919f3d5eULL: /* SSUBSCRIBE */
	case 0xa869e3bd6691eb59ULL: /* MONITOR */
		return 1;
	}
	return 0;
}

#endif
