import t from 'tap'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { cacheRoot, etcdCacheDir, findEtcd } from '../../../src/etcd/binary.ts'
import { formatVersion } from '../../../src/etcd/version.ts'
import type { EtcdVersion } from '../../../src/etcd/version.ts'

/** A stand-in for etcd that answers `--version`. */
async function fakeEtcd (path: string, version: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, `#!/bin/sh\necho "etcd Version: ${version}"\n`)
  await chmod(path, 0o755)
  return path
}

async function found (env: Record<string, string>): Promise<string> {
  const result = await findEtcd({ env })
  return result.ok ? `${result.etcd.source} ${formatVersion(result.etcd.version)} ${result.etcd.path}` : result.message
}

t.test('the named etcd comes before the one on PATH, and that before the cache', async t => {
  const dir = t.testdir()
  const named = await fakeEtcd(join(dir, 'my-etcd'), '3.4.1')
  const onPath = await fakeEtcd(join(dir, 'bin', 'etcd'), '3.5.1')
  const cached = await fakeEtcd(join(dir, 'cache', 'lockkeeper', 'etcd', '3.6.1', 'etcd'), '3.6.1')
  const env = { XDG_CACHE_HOME: join(dir, 'cache') }

  t.equal(await found({ ...env, PATH: join(dir, 'bin'), LOCKKEEPER_ETCD_BINARY: named }), `environment 3.4.1 ${named}`)
  t.equal(await found({ ...env, PATH: join(dir, 'bin') }), `path 3.5.1 ${onPath}`)
  t.equal(await found({ ...env, PATH: '/nonexistent' }), `cache 3.6.1 ${cached}`)
})

t.test('a named etcd that does not run is an error, not a reason to take another', async t => {
  const dir = t.testdir({ 'not-etcd': 'plain text' })
  await fakeEtcd(join(dir, 'bin', 'etcd'), '3.5.1')
  for (const name of ['not-etcd', 'missing', 'bin']) {
    t.match(await found({ PATH: join(dir, 'bin'), LOCKKEEPER_ETCD_BINARY: join(dir, name) }), /^LOCKKEEPER_ETCD_BINARY: .* is not an etcd that runs here$/)
  }
})

t.test('a named etcd that is too old is an error', async t => {
  const old = await fakeEtcd(join(t.testdir(), 'etcd'), '3.3.25')
  t.equal(await found({ LOCKKEEPER_ETCD_BINARY: old }), `LOCKKEEPER_ETCD_BINARY: ${old} is etcd 3.3.25; 3.4 or newer is needed`)
})

t.test('an etcd on PATH that is too old or no etcd is passed over', async t => {
  const dir = t.testdir()
  await fakeEtcd(join(dir, 'old', 'etcd'), '3.3.25')
  await fakeEtcd(join(dir, 'other', 'etcd'), 'unknown')
  await mkdir(join(dir, 'folder', 'etcd'), { recursive: true })
  const good = await fakeEtcd(join(dir, 'good', 'etcd'), '3.4.0')
  const path = ['old', 'other', 'folder', 'good'].map(name => join(dir, name)).join(':')
  t.equal(await found({ PATH: path }), `path 3.4.0 ${good}`)
})

t.test('the newest etcd in the cache is taken, whatever else lies there', async t => {
  const dir = t.testdir()
  const cache = join(dir, 'lockkeeper', 'etcd')
  for (const version of ['3.5.9', '3.5.27', '3.3.25', '3.9.9.tmp-123']) await fakeEtcd(join(cache, version, 'etcd'), version)
  await mkdir(join(cache, '3.7.0'), { recursive: true })
  t.equal(await found({ PATH: '', XDG_CACHE_HOME: dir }), `cache 3.5.27 ${join(cache, '3.5.27', 'etcd')}`)
})

t.test('the versions kept for the test matrix do not count', async t => {
  const dir = t.testdir()
  await fakeEtcd(join(dir, 'lockkeeper', 'matrix', '3.7.1', 'etcd'), '3.7.1')
  t.match(await found({ PATH: '', XDG_CACHE_HOME: dir }), /^No etcd/)
})

t.test('where there is none, the message names every choice', async t => {
  const message = await found({ PATH: '', XDG_CACHE_HOME: t.testdir() })
  for (const choice of ['LOCKKEEPER_ETCD_BINARY', 'PATH', join('lockkeeper', 'etcd'), '--etcd-endpoints']) t.ok(message.includes(choice), choice)
})

t.test('the cache is in XDG_CACHE_HOME when that is absolute, else in ~/.cache', async t => {
  t.equal(cacheRoot({ XDG_CACHE_HOME: '/var/cache/me', HOME: '/home/me' }), '/var/cache/me/lockkeeper')
  t.equal(cacheRoot({ XDG_CACHE_HOME: 'relative', HOME: '/home/me' }), '/home/me/.cache/lockkeeper')
  t.equal(etcdCacheDir({ HOME: '/home/me' }), '/home/me/.cache/lockkeeper/etcd')
})

t.test('the cache is read without running anything', async t => {
  const dir = t.testdir()
  await fakeEtcd(join(dir, 'lockkeeper', 'etcd', '3.5.27', 'etcd'), 'broken')
  const asked: string[] = []
  const askVersion = async (path: string): Promise<EtcdVersion | undefined> => { asked.push(path); return undefined }
  const result = await findEtcd({ env: { PATH: '', XDG_CACHE_HOME: dir }, askVersion })
  t.ok(result.ok)
  t.same(asked, [])
})
