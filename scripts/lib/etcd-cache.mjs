/** Puts etcd binaries into the user's cache, as `<cache>/<version>/etcd`, which is where src/etcd/binary.ts looks. */
import { chmod, copyFile, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from './run.mjs'

/** Unfinished work is named so that no one takes it for a version. */
const UNFINISHED = '.unfinished-'
/** No download takes as long; what is older was left by a run that was killed. */
const ABANDONED_AFTER_MS = 60 * 60 * 1000

/**
 * @typedef {{ ok: true, version: string, path: string } | { ok: false, reason: string }} Fetched
 */

/**
 * Gives `work` an empty directory inside the cache, on the same file system as the place where its result goes, and
 * removes it afterwards.
 *
 * @template T
 * @param {string} cache
 * @param {(directory: string) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withWorkshop (cache, work) {
  await mkdir(cache, { recursive: true })
  await removeAbandoned(cache)
  const directory = await mkdtemp(join(cache, UNFINISHED))
  try {
    return await work(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/**
 * Moves a binary to its place, whole or not at all; when another run was faster, its binary stays.
 *
 * @param {string} cache
 * @param {string} workshop - from `withWorkshop`
 * @param {string} binary
 * @returns {Promise<Fetched>} with a reason when the binary does not run on this machine
 */
export async function placeEtcd (cache, workshop, binary) {
  await chmod(binary, 0o755)
  const version = await versionOf(binary)
  if (version === undefined) return { ok: false, reason: 'the etcd that was fetched does not run on this machine' }

  const parcel = join(workshop, 'parcel')
  await mkdir(parcel)
  await rename(binary, join(parcel, 'etcd')).catch(() => copyFile(binary, join(parcel, 'etcd')))
  const place = join(cache, version)
  const path = join(place, 'etcd')
  try {
    await rename(parcel, place)
  } catch {
    // Something is there already: another run's etcd, or rubbish.
    if (await versionOf(path) !== version) {
      await rm(place, { recursive: true, force: true })
      await rename(parcel, place)
    }
  }
  return { ok: true, version, path }
}

/**
 * @param {string} binary
 * @returns {Promise<string | undefined>} undefined when it does not run or is no etcd
 */
export async function versionOf (binary) {
  const outcome = await run(binary, ['--version'], { timeoutMs: 5000 })
  return outcome.ok ? /^etcd Version:\s*(\S+)/m.exec(outcome.stdout)?.[1] : undefined
}

/** @param {string} cache */
async function removeAbandoned (cache) {
  for (const name of await readdir(cache)) {
    if (!name.startsWith(UNFINISHED)) continue
    const path = join(cache, name)
    const found = await stat(path).catch(() => undefined) // Another run may remove it at this very moment.
    if (found !== undefined && Date.now() - found.mtimeMs > ABANDONED_AFTER_MS) await rm(path, { recursive: true, force: true })
  }
}
