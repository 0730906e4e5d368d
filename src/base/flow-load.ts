/** Reports when throughput is high enough to trade memory for speed, and when that ends. */

/** A flow is reported once it exceeds this many bytes. */
const lightBytes = 8 * 1024 * 1024;

/** One flow, such as the output of a command. `end` is idempotent. */
export interface Flow {
  add(sizeBytes: number): void;
  end(): void;
}

export class FlowLoad {
  readonly #onChange: (isBusy: boolean) => void;
  #heavy = 0;

  constructor(onChange: (isBusy: boolean) => void) {
    this.#onChange = onChange;
  }

  begin(): Flow {
    let leftBytes = lightBytes;
    let state: "light" | "heavy" | "ended" = "light";
    return {
      add: (sizeBytes) => {
        if (state !== "light") return;
        leftBytes -= sizeBytes;
        if (leftBytes >= 0) return;
        state = "heavy";
        if (this.#heavy++ === 0) this.#onChange(true);
      },
      end: () => {
        if (state === "heavy" && --this.#heavy === 0) this.#onChange(false);
        state = "ended";
      },
    };
  }
}
