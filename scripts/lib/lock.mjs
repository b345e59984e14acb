import { readFile, rm, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

const LOOK_EVERY_MS = 250

/**
 * Runs `work` while no other process does, as told by a file that holds the process ID of the one at work. A lock
 * whose process is gone counts for nothing.
 *
 * @template T
 * @param {string} file
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock (file, work) {
  while (!await take(file)) {
    if (await holderIsGone(file)) await rm(file, { force: true })
    else await sleep(LOOK_EVERY_MS)
  }
  try {
    return await work()
  } finally {
    await rm(file, { force: true })
  }
}

/** @param {string} file */
async function take (file) {
  try {
    await writeFile(file, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}

/** @param {string} file */
async function holderIsGone (file) {
  const pid = Number(await readFile(file, 'utf8').catch(() => ''))
  if (!Number.isInteger(pid) || pid <= 0) return false // Just being written, or just given back: look again.
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'
  }
}
