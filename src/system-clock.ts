/**
 * The machine's clock. `now` is monotonic (it goes on while the process is stopped, and no administrator sets it);
 * the wall clock is for people only.
 */
import type { Clock } from './admission/ports.ts'

export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => new Date().toISOString(),
  async sleep (ms, signal) {
    if (signal?.aborted === true) return
    await new Promise<void>(resolve => {
      const done = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal?.addEventListener('abort', done, { once: true })
    })
  }
}
