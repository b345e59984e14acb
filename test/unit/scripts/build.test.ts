import t from 'tap'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { ensureBuilt, isBuilt } from '../../../scripts/lib/build.mjs'

/** A project of two source files, built by the real compiler. */
async function project (t: Pick<Test, 'testdir'>): Promise<string> {
  const root = t.testdir({
    'package.json': '{"type":"module"}',
    'package-lock.json': '{}',
    'tsconfig.json': JSON.stringify({ compilerOptions: { module: 'nodenext', rootDir: '.', outDir: 'dist', types: [], lib: ['es5'] } }),
    'tsconfig.build.json': JSON.stringify({ extends: './tsconfig.json', compilerOptions: { incremental: true, tsBuildInfoFile: 'dist/.tsbuildinfo' }, include: ['src', 'routes'] }),
    src: { 'a.ts': 'export const a = 1\n' },
    routes: { v1: { 'b.ts': 'export const b = 1\n' } }
  })
  await mkdir(join(root, 'node_modules'))
  await symlink(resolve('node_modules/typescript'), join(root, 'node_modules', 'typescript'))
  return root
}

t.test('sources are built once and again only after a change', async t => {
  const root = await project(t)
  const said: string[] = []
  const build = (): Promise<boolean> => ensureBuilt(root, line => said.push(line))
  t.ok(await build())
  t.ok(await build())
  t.equal(said.length, 1)

  await writeFile(join(root, 'src', 'a.ts'), 'export const a = 2\n')
  t.notOk(await isBuilt(root))
  t.ok(await build())
  t.match(await readFile(join(root, 'dist', 'src', 'a.js'), 'utf8'), /a = 2/)
  t.equal(said.length, 2)
})

t.test('what was built from a source that is gone goes too', async t => {
  const root = await project(t)
  await ensureBuilt(root, () => {})
  await rm(join(root, 'routes', 'v1', 'b.ts'))
  t.ok(await ensureBuilt(root, () => {}))
  t.notOk(existsSync(join(root, 'dist', 'routes', 'v1', 'b.js')))
  t.ok(existsSync(join(root, 'dist', 'src', 'a.js')))
})

t.test('an output that somebody deleted is built again', async t => {
  const root = await project(t)
  await ensureBuilt(root, () => {})
  await rm(join(root, 'dist', 'src', 'a.js'))
  t.ok(await ensureBuilt(root, () => {}))
  t.ok(existsSync(join(root, 'dist', 'src', 'a.js')))
})

t.test('a source that does not compile is not taken for built', async t => {
  const root = await project(t)
  await writeFile(join(root, 'src', 'a.ts'), 'export const a: number = "one"\n')
  t.notOk(await ensureBuilt(root, () => {}))
  t.notOk(await isBuilt(root))
})
