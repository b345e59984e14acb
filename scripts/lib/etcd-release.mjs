/** Fetches etcd's own release archive. */
import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { placeEtcd, withWorkshop } from './etcd-cache.mjs'
import { run } from './run.mjs'

/**
 * The release that is fetched, and the SHA-256 sums of its archives: what arrives is run, so it is not taken on trust.
 */
export const RELEASE = {
  version: '3.5.27',
  baseUrl: 'https://github.com/etcd-io/etcd/releases/download',
  /** @type {Readonly<Record<string, string>>} */
  sha256: {
    'linux-amd64': '0aad9a9e4e0817a021e933f9806a2b2960a62f949ad5a3d6436d8886945cb1bc',
    'linux-arm64': '1277309f540c5a0329c428f95455c9f76d24f768c8d28fd2753e891c379053fa'
  }
}

/** A machine without a way out must not wait long for the next choice, whether its packets are refused or swallowed. */
const ANSWER_TIMEOUT_MS = 4000
const STALL_TIMEOUT_MS = 10_000

/**
 * @param {string} platform - process.platform
 * @param {string} arch - process.arch
 * @returns {string} as in the archives' names
 */
export function releasePlatform (platform, arch) {
  return `${platform}-${arch === 'x64' ? 'amd64' : arch}`
}

/**
 * @param {string} cache - where it is put
 * @param {{ release?: typeof RELEASE, platform?: string, answerTimeoutMs?: number, stallTimeoutMs?: number }} [options]
 * @returns {Promise<import('./etcd-cache.mjs').Fetched>}
 */
export async function fetchRelease (cache, options = {}) {
  const { release = RELEASE, platform = releasePlatform(process.platform, process.arch) } = options
  const sum = release.sha256[platform]
  if (sum === undefined) return { ok: false, reason: `no release archive is known for ${platform}` }
  const name = `etcd-v${release.version}-${platform}`
  const url = `${release.baseUrl}/v${release.version}/${name}.tar.gz`

  return await withWorkshop(cache, async workshop => {
    const archive = join(workshop, 'etcd.tar.gz')
    let received
    try {
      received = await download(url, archive, options)
    } catch (error) {
      return { ok: false, reason: `cannot download ${url}: ${describe(error)}` }
    }
    if (received !== sum) return { ok: false, reason: `${url} has SHA-256 ${received}, not ${sum}: not used` }
    const unpacked = await run('tar', ['-xzf', archive, '-C', workshop, `${name}/etcd`], { timeoutMs: 60_000 })
    if (!unpacked.ok) return { ok: false, reason: `cannot unpack ${url}: ${unpacked.stderr.trim()}` }
    return await placeEtcd(cache, workshop, join(workshop, name, 'etcd'))
  })
}

/**
 * @param {string} url
 * @param {string} path
 * @param {{ answerTimeoutMs?: number, stallTimeoutMs?: number }} options
 * @returns {Promise<string>} the SHA-256 of what was received, in hexadecimal
 */
async function download (url, path, { answerTimeoutMs = ANSWER_TIMEOUT_MS, stallTimeoutMs = STALL_TIMEOUT_MS }) {
  const patience = new AbortController()
  const giveUp = () => { patience.abort(new Error('no answer in time')) }
  let timer = setTimeout(giveUp, answerTimeoutMs)
  try {
    const response = await fetch(url, { signal: patience.signal })
    if (!response.ok || response.body === null) throw new Error(`status ${response.status}`)
    clearTimeout(timer)
    timer = setTimeout(giveUp, stallTimeoutMs)
    const hash = createHash('sha256')
    const file = await open(path, 'w')
    try {
      for await (const chunk of response.body) {
        timer.refresh()
        hash.update(chunk)
        await file.write(chunk)
      }
    } finally {
      await file.close()
    }
    return hash.digest('hex')
  } finally {
    clearTimeout(timer)
  }
}

/**
 * fetch hides the reason ("fetch failed") in the cause.
 *
 * @param {unknown} error
 */
function describe (error) {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? error.cause.message : error.message
}
