import t from 'tap'
import { installMatchesLock } from '../../../scripts/lib/install.mjs'

const lock = {
  packages: {
    '': { version: '0.1.0' },
    'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' },
    'node_modules/b': { version: '2.0.0', integrity: 'sha512-b', optional: true }
  }
}

t.test('what npm installed from the lock file is up to date', async t => {
  const { a, b } = { a: lock.packages['node_modules/a'], b: lock.packages['node_modules/b'] }
  t.ok(installMatchesLock(lock, { packages: { 'node_modules/a': a, 'node_modules/b': b } }))
  t.ok(installMatchesLock(lock, { packages: { 'node_modules/a': a } }), 'an optional package may be for another platform')
})

t.test('a missing, other, or left-over package makes it stale', async t => {
  const a = lock.packages['node_modules/a']
  t.notOk(installMatchesLock(lock, { packages: {} }))
  t.notOk(installMatchesLock(lock, {}))
  t.notOk(installMatchesLock(lock, { packages: { 'node_modules/a': { ...a, version: '1.0.1' } } }))
  t.notOk(installMatchesLock(lock, { packages: { 'node_modules/a': { ...a, integrity: 'sha512-x' } } }))
  t.notOk(installMatchesLock(lock, { packages: { 'node_modules/a': a, 'node_modules/c': { version: '1.0.0' } } }))
})
