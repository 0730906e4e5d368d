/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Texts in messages of PostgreSQL: fingerprints of SQL, names of statements. Part of requests.bpf.c; sql-template.ts does the same in user
 * space.
 */
#ifndef CORAL_PROTOCOL_POSTGRES_TEXT_H
#define CORAL_PROTOCOL_POSTGRES_TEXT_H

#include "protocol/http1-head.h"

/* Most bytes of a statement that are hashed. */
#define POSTGRES_SQL_BYTES 512
#define POSTGRES_NAME_BYTES 64

/* path.kinds: what the previous character belonged to. */
#define SQL_CODE 0
#define SQL_WORD 1
#define SQL_NUMBER 2
#define SQL_STRING 3
#define SQL_BLANK 4

/* Characters after which a sign belongs to the number that follows: % & ( * + , - / < = > */
#define SQL_BEFORE_SIGN                                                                                                                \
	(1ULL << '%' | 1ULL << '&' | 1ULL << '(' | 1ULL << '*' | 1ULL << '+' | 1ULL << ',' | 1ULL << '-' | 1ULL << '/' | 1ULL << '<' | \
	 1ULL << '=' | 1ULL << '>')

/* Adds a character that is neither blank nor part of a literal, after the comma that was held back. */
static always_inline void sql_code(struct path_parser *sql, u8 character)
{
	if (sql->length)
		sql->segment = (sql->segment ^ ',') * HASH_PRIME;
	sql->length = 0;
	sql->digits = 0;
	sql->kinds = SQL_CODE;
	sql->last = character;
	sql->segment = (sql->segment ^ character) * HASH_PRIME;
}

/* True if a sign may belong to a number. The next character decides. */
static always_inline int is_sign(const struct path_parser *sql, u32 mode, u8 character)
{
	if ((character != '-' && character != '+') || mode != SQL_CODE)
		return 0;
	return sql->length || (!sql->digits && sql->last < 64 && SQL_BEFORE_SIGN >> sql->last & 1);
}

/*
 * Hashes a character of SQL that does not just continue a word. path.digits: the previous token was a literal; path.length: a comma follows
 * it.
 */
subprogram int postgres_character(struct scratch *scratch, u32 value)
{
	struct path_parser *sql;
	u8 character = value;
	u32 kind, mode;

	if (!scratch)
		return 0;
	sql = &scratch->path;
	kind = character_kinds[character];
	mode = sql->kinds;
	if (mode == SQL_STRING) {
		if (character == '\'')
			sql->kinds = SQL_CODE;
		return 0;
	}
	if (mode == SQL_NUMBER && (kind & (CHAR_DIGIT | CHAR_HEX | CHAR_LETTER | CHAR_DOT)))
		return 0;
	if (sql->sign && character > ' ') {
		if (!(kind & CHAR_DIGIT))
			sql_code(sql, sql->sign);
		sql->sign = 0;
	}
	if (character == '\'' || ((kind & CHAR_DIGIT) && mode != SQL_WORD)) {
		sql->kinds = character == '\'' ? SQL_STRING : SQL_NUMBER;
		if (!sql->digits)
			sql->segment = (sql->segment ^ '?') * HASH_PRIME;
		sql->digits = 1;
		sql->length = 0;
		return 0;
	}
	if (character <= ' ') {
		sql->kinds = mode == SQL_WORD ? SQL_BLANK : mode == SQL_NUMBER ? SQL_CODE : mode;
		return 0;
	}
	if (character == ',' && sql->digits && !sql->length) {
		sql->length = 1;
		sql->kinds = SQL_CODE;
		return 0;
	}
	if (is_sign(sql, mode, character)) {
		sql->sign = character;
		return 0;
	}
	if (sql->length)
		sql->segment = (sql->segment ^ ',') * HASH_PRIME;
	sql->length = 0;
	sql->digits = 0;
	sql->kinds = SQL_CODE;
	sql->last = character;
	if ((kind & (CHAR_DIGIT | CHAR_HEX | CHAR_LETTER)) || character == '_' || character == '$') {
		if (mode == SQL_BLANK)
			sql->segment = (sql->segment ^ ' ') * HASH_PRIME;
		if (character >= 'a' && character <= 'z')
			character -= 32;
		sql->kinds = SQL_WORD;
	}
	sql->segment = (sql->segment ^ character) * HASH_PRIME;
	return 0;
}

/*
 * Hashes the SQL at scratch->at into scratch->fingerprint: letters in upper case, runs of white space as one, literals and lists of
 * literals as one placeholder.
 */
subprogram int postgres_sql(struct scratch *scratch)
{
	volatile struct path_parser *sql;
	const u8 *text;

	if (!scratch)
		return 0;
	text = scratch->bytes + (scratch->at & (2 * LEARN_BYTES - 1));
	sql = &scratch->path;
	sql->segment = mix(HASH_SEED, PROTOCOL_POSTGRES);
	sql->kinds = SQL_CODE;
	sql->digits = 0;
	sql->length = 0;
	sql->last = 0;
	sql->sign = 0;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < POSTGRES_SQL_BYTES; index++) {
		u8 character = text[index];

		if (!character)
			break;
		if (sql->kinds == SQL_WORD && (character_kinds[character] & (CHAR_DIGIT | CHAR_HEX | CHAR_LETTER)))
			sql->segment = (sql->segment ^ (character - ((u32)(character >= 'a') << 5))) * HASH_PRIME;
		else
			postgres_character(scratch, character);
	}
	scratch->fingerprint = sql->segment;
	return 0;
}

/* Hash of the name at scratch->at, 0 if it is empty; scratch->at becomes its end. */
subprogram u64 postgres_name(struct scratch *scratch)
{
	volatile struct path_parser *name;
	const u8 *text;

	if (!scratch)
		return 0;
	text = scratch->bytes + (scratch->at & (2 * LEARN_BYTES - 1));
	name = &scratch->path;
	name->segment = HASH_SEED;
	name->length = POSTGRES_NAME_BYTES;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < POSTGRES_NAME_BYTES; index++) {
		if (!text[index]) {
			name->length = index;
			break;
		}
		name->segment = (name->segment ^ text[index]) * HASH_PRIME;
	}
	scratch->at += name->length + 1;
	return name->length ? name->segment : 0;
}

#endif
