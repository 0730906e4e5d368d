/** Which lines belong to the log record before them: the rest of a message, and stack traces of Java, Python, Go, Node, .NET, PHP and Rust. */

const indented = /^[ \t]+\S/;
/** Lines within a trace that are not indented, after any line. */
const traceLine =
  /^(?:Caused by: |Suppressed: |\.\.\. \d+ (?:more|common frames omitted)|During handling of the above exception|The above exception was the direct cause)/;
/** `java.lang.IllegalStateException: closed`, below the line that logged it. */
const javaException = /^(?:[A-Za-z_$][\w$]*\.)+[\w$]*(?:Exception|Error|Throwable|Failure|Fault)(?::\s|$)/;
const pythonTrace = /(?:^|\n)Traceback \(most recent call last\):$/m;
const pythonTraceLine = "Traceback (most recent call last):";
/** What a Python trace ends with: `ValueError: bad`, `shop.errors.Empty`. */
const pythonEnd = /^[A-Za-z_][\w.]*(?::(?:\s|$)|$)/;
const pythonChain = /^(?:During handling of the above exception|The above exception was the direct cause)/;
const goCrash = /^(?:panic: |fatal error: )/;
/** Begins what net/http and recovering code log of a panic, below whatever they said of it. */
const goroutine = /^goroutine \d+ \[[^\]]*\]:/;
const goLine = /^(?:goroutine \d+ \[|\[signal |created by |exit status \d|runtime: |[\w./*{}$-]+(?:\([\w.*]*\)[\w.]*)*\()/;
const phpTraceLine = /^(?:Stack trace:$|#\d+ )/;
const rustPanic = /\bthread '[^']*' (?:\(\d+\) )?panicked at /;
const rustLine = /^(?:note: |stack backtrace:$)/;
/** The end of what Node and JSON printers write over several lines. */
const closing = /^[\]})]+[,;]?$/;
/** A first line that reports a problem; a stack trace may follow. */
const problem =
  /\b(?:WARN|WARNING|ERROR|ERR|SEVERE|FATAL|CRITICAL|CRIT|ALERT|PANIC)\b|\b(?:level|lvl|severity)="?(?:warn|err|fatal|crit)|[[<(](?:warn|warning|error|critical|fatal)[\]>)]/;
const mayContinue = /exception|error|traceback|panic|recover|goroutine|fatal|warn|severe|crit|[{[(]$/i;

/** Characters of a line that are matched; bounds the cost of expressions that backtrack. */
const reach = 300;

/** `record`: the lines so far. */
export function continuesRecord(record: string, nextLine: string): boolean {
  const line = nextLine.slice(0, reach);
  if (indented.test(line) || traceLine.test(line)) return true;
  const firstEnd = record.indexOf("\n");
  const first = record.slice(0, firstEnd < 0 ? reach : Math.min(firstEnd, reach));
  const lastStart = record.lastIndexOf("\n") + 1;
  const last = record.slice(lastStart, lastStart + reach);
  if (line === pythonTraceLine) return pythonChain.test(last) || (firstEnd < 0 && problem.test(first));
  if (javaException.test(line) && firstEnd < 0 && problem.test(first)) return true;
  if (indented.test(last) && pythonTrace.test(record)) return pythonEnd.test(line);
  if (closing.test(line)) return indented.test(last) || /[{[(]$/.test(last);
  if (phpTraceLine.test(line)) return /\bPHP |Uncaught /.test(first) || record.includes("\nStack trace:\n");
  if (rustPanic.test(first)) return firstEnd < 0 || rustLine.test(line);
  if (goroutine.test(line)) return firstEnd < 0 || isGo(first, record);
  return isGo(first, record) && goLine.test(line);
}

function isGo(first: string, record: string): boolean {
  return goCrash.test(first) || goroutine.test(first) || record.includes("\ngoroutine ");
}

/** Whether more lines of the record may follow: it reports a problem, or has several lines already. Others need not wait for the next line. */
export function mayBeUnfinished(record: string): boolean {
  return record.includes("\n") || mayContinue.test(record.slice(0, reach));
}
