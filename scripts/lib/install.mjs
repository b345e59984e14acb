/** Keeps node_modules at what package-lock.json says. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runAloud } from './run.mjs'

/**
 * @typedef {object} LockedPackage
 * @property {string} [version]
 * @property {string} [integrity]
 * @property {boolean} [optional]
 *
 * @typedef {{ packages?: Record<string, LockedPackage> }} Lock
 */

/**
 * Tells whether what npm wrote down of node_modules is what the lock file asks for.
 *
 * The contents are compared and not the times: a `git checkout` sets times that mean nothing, and a clone of the same
 * lock file need not install anew. npm writes node_modules/.package-lock.json last, so that an installation cut short
 * has none.
 *
 * @param {Lock} wanted - package-lock.json
 * @param {Lock} installed - node_modules/.package-lock.json
 */
export function installMatchesLock (wanted, installed) {
  const want = Object.entries(wanted.packages ?? {}).filter(([path]) => path !== '')
  const have = installed.packages ?? {}
  const stray = Object.keys(have).some(path => wanted.packages?.[path] === undefined)
  return !stray && want.every(([path, entry]) => {
    const there = have[path]
    // An optional package may be for another platform.
    if (there === undefined) return entry.optional === true
    return there.version === entry.version && there.integrity === entry.integrity
  })
}

/**
 * Runs `npm ci` unless node_modules is up to date.
 *
 * @param {string} root - of the project
 * @param {(line: string) => void} say
 * @returns {Promise<boolean>} false when npm failed, which it has explained itself
 */
export async function ensureInstalled (root, say) {
  if (await isInstalled(root)) return true
  say('Installing packages (npm ci)')
  // The npm that runs this script, whatever its name and place; the development packages too, even where NODE_ENV says
  // production: the build needs them.
  const npm = process.env['npm_execpath'] ?? ''
  const args = ['ci', '--include=dev', '--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error']
  const code = npm === '' ? await runAloud('npm', args, root) : await runAloud(process.execPath, [npm, ...args], root)
  return code === 0
}

/** @param {string} root */
export async function isInstalled (root) {
  try {
    const [wanted, installed] = await Promise.all([
      readFile(join(root, 'package-lock.json'), 'utf8'),
      readFile(join(root, 'node_modules', '.package-lock.json'), 'utf8')
    ])
    return installMatchesLock(JSON.parse(wanted), JSON.parse(installed))
  } catch {
    return false // One of them is missing or unreadable: npm will say what is wrong.
  }
}
