/** Decides when a value has to be reported again: it differs from the last reported one and has been stable for a while. */
export class DebouncedValue {
  readonly #holdMs: number;
  #reported: string | undefined;
  #current: string | undefined;
  #sinceMs = 0;

  constructor(holdMs: number) {
    this.#holdMs = holdMs;
  }

  /** Call after the value was reported. */
  markReported(value: string): void {
    this.#reported = value;
  }

  /** True when the value should be reported. Never before the first report. */
  isDue(value: string, nowMs: number): boolean {
    if (value !== this.#current) {
      this.#current = value;
      this.#sinceMs = nowMs;
    }
    return this.#reported !== undefined && value !== this.#reported && nowMs - this.#sinceMs >= this.#holdMs;
  }
}
