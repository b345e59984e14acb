/** Keeps dist/ at what src/ and routes/ say. */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { runAloud } from './run.mjs'

const SOURCE_DIRECTORIES = ['src', 'routes']
const SETTINGS = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json']
const STAMP = '.built-from'
/** tsc's memory of its last run: with it a build after a small change takes a second. */
const BUILD_INFO = '.tsbuildinfo'

/**
 * Tells whether dist/ was built from exactly these sources and is whole.
 *
 * @param {string} root - of the project
 */
export async function isBuilt (root) {
  const sources = await sourceFiles(root)
  return isWhole(root, sources) && await readFile(join(root, 'dist', STAMP), 'utf8').catch(() => '') === await fingerprint(root, sources)
}

/**
 * Builds unless that is done already.
 *
 * @param {string} root - of the project
 * @param {(line: string) => void} say
 * @returns {Promise<boolean>} false when the compiler found errors, which it has shown
 */
export async function ensureBuilt (root, say) {
  if (await isBuilt(root)) return true
  say('Building (tsc)')
  const dist = join(root, 'dist')
  const sources = await sourceFiles(root)
  const stamp = await fingerprint(root, sources)
  // tsc believes its memory and not its eyes: what was deleted from dist/ it would not write again.
  if (!isWhole(root, sources)) await rm(join(dist, BUILD_INFO), { force: true })
  await rm(join(dist, STAMP), { force: true })
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  if (await runAloud(process.execPath, [tsc, '-p', 'tsconfig.build.json'], root) !== 0) return false
  await removeStale(dist, new Set(sources.map(stem)))
  await writeFile(join(dist, STAMP), stamp)
  return true
}

/**
 * @param {string} root
 * @param {readonly string[]} sources
 */
function isWhole (root, sources) {
  return sources.every(source => existsSync(join(root, 'dist', outputOf(source))))
}

/**
 * Where tsc puts the code of a source file, below dist/.
 *
 * @param {string} source - relative to the project
 */
function outputOf (source) {
  return source.replace(/\.ts$/, '.js')
}

/**
 * What a source file and all its outputs have in common: `src/app` for src/app.ts, src/app.d.ts.map and so on.
 *
 * @param {string} file - relative to the project, or to dist/
 */
function stem (file) {
  return file.replace(/(?:\.d)?\.[cm]?[jt]s(?:\.map)?$/, '')
}

/**
 * Removes what was built from sources that are gone: a route or a test double left behind would still be loaded.
 *
 * @param {string} dist
 * @param {ReadonlySet<string>} stems - of all sources
 */
async function removeStale (dist, stems) {
  for (const directory of SOURCE_DIRECTORIES) {
    for (const file of await filesBelow(join(dist, directory))) {
      if (!stems.has(stem(relative(dist, file)))) await rm(file)
    }
  }
}

/**
 * @param {string} root
 * @returns {Promise<string[]>} relative to the project, sorted
 */
async function sourceFiles (root) {
  const files = await Promise.all(SOURCE_DIRECTORIES.map(directory => filesBelow(join(root, directory))))
  return files.flat().filter(file => file.endsWith('.ts') && !file.endsWith('.d.ts')).map(file => relative(root, file)).sort()
}

/**
 * @param {string} directory
 * @returns {Promise<string[]>} TypeScript and what is made of it; none when there is no such directory
 */
async function filesBelow (directory) {
  if (!existsSync(directory)) return []
  const names = await readdir(directory, { recursive: true })
  return names.filter(name => /\.(?:ts|js|map)$/.test(name)).map(name => join(directory, name))
}

/**
 * @param {string} root
 * @param {readonly string[]} sources
 */
async function fingerprint (root, sources) {
  const files = [...SETTINGS, ...sources]
  const contents = await Promise.all(files.map(file => readFile(join(root, file))))
  const hash = createHash('sha256')
  files.forEach((file, index) => { hash.update(`${file}\0${contents[index]?.length ?? 0}\0`).update(contents[index] ?? '') })
  return hash.digest('hex')
}
