/** SQL words and character classes for templates. */

/** First words of statements. Text that starts with none of them may not be SQL. */
export const knownVerbs = new Set(
  (
    "SELECT INSERT UPDATE DELETE MERGE REPLACE WITH VALUES TABLE BEGIN START COMMIT ROLLBACK END ABORT SAVEPOINT RELEASE SET RESET SHOW USE EXPLAIN " +
    "ANALYZE ANALYSE DESCRIBE DESC CREATE ALTER DROP TRUNCATE RENAME COPY LOAD CALL DO EXECUTE PREPARE DEALLOCATE DECLARE FETCH MOVE CLOSE LOCK UNLOCK " +
    "GRANT REVOKE VACUUM REINDEX CLUSTER CHECKPOINT REFRESH LISTEN NOTIFY UNLISTEN DISCARD COMMENT KILL FLUSH OPTIMIZE CHECK REPAIR HANDLER XA IMPORT " +
    "SECURITY REASSIGN CHANGE PURGE STOP SHUTDOWN INSTALL UNINSTALL HELP BINLOG CACHE SIGNAL RESIGNAL GET BACKUP UPSERT EXPORT ATTACH DETACH EXISTS " +
    "SYSTEM IDENTIFY_SYSTEM START_REPLICATION BASE_BACKUP TIMELINE_HISTORY"
  ).split(" "),
);
/** Verbs that may follow the tables of a `WITH`. */
export const mainVerbs = new Set(["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES"]);
/** Literals that are words. */
export const valueWords = new Set(["NULL", "TRUE", "FALSE", "DEFAULT"]);

/** Character classes, by what a character can start. */
export const other = 0;
export const blank = 1;
export const letter = 2;
export const digit = 3;
export const operator = 4;
/** By character code, up to 127. */
export const classes = Uint8Array.from({ length: 128 }, (_, code) => {
  const char = String.fromCharCode(code);
  if (code <= 32 || code === 127) return blank;
  if (/[A-Za-z_]/.test(char)) return letter;
  if (/[0-9]/.test(char)) return digit;
  return "=<>!~|&+-*/%^@#:".includes(char) ? operator : other;
});

export function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** Generated single-use names (temporary tables, savepoints, cursors) would make every statement distinct. */
export function looksGenerated(word: string): boolean {
  if (word.length < 16) return false;
  let digits = 0;
  for (let at = 0; at < word.length; at++) if (isDigit(word.charCodeAt(at))) digits++;
  return digits >= 8;
}
