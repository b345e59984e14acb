import t from 'tap'
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withLock } from '../../../scripts/lib/lock.mjs'

t.test('two at once take turns, and the lock is gone afterwards', async t => {
  const file = join(t.testdir(), 'lock')
  let inside = 0
  let most = 0
  const work = async (): Promise<void> => {
    most = Math.max(most, ++inside)
    await new Promise(setImmediate)
    inside--
  }
  await Promise.all([withLock(file, work), withLock(file, work)])
  t.equal(most, 1)
  t.notOk(existsSync(file))
})

t.test('the lock of a process that is gone counts for nothing', async t => {
  const file = join(t.testdir(), 'lock')
  const { pid } = spawnSync(process.execPath, ['--version'])
  writeFileSync(file, String(pid))
  t.equal(await withLock(file, async () => 'done'), 'done')
})

t.test('the lock is given back when the work fails', async t => {
  const file = join(t.testdir(), 'lock')
  await t.rejects(withLock(file, async () => { throw new Error('no disk') }), /no disk/)
  t.notOk(existsSync(file))
})
