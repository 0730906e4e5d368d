/** Parts of a date in UTC, of seconds since 1970. NaN for what is no date. */

const dateOf = (seconds: number): Date => new Date(Math.trunc(seconds) * 1_000);

function dayOfYear(seconds: number): number {
  const date = dateOf(seconds);
  return Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000) + 1;
}

function daysInMonth(seconds: number): number {
  const date = dateOf(seconds);
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
}

export const datePart = {
  year: (seconds: number): number => dateOf(seconds).getUTCFullYear(),
  month: (seconds: number): number => dateOf(seconds).getUTCMonth() + 1,
  dayOfMonth: (seconds: number): number => dateOf(seconds).getUTCDate(),
  /** 0: Sunday. */
  dayOfWeek: (seconds: number): number => dateOf(seconds).getUTCDay(),
  dayOfYear,
  daysInMonth,
  hour: (seconds: number): number => dateOf(seconds).getUTCHours(),
  minute: (seconds: number): number => dateOf(seconds).getUTCMinutes(),
};
