import t from 'tap'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fetchRelease, releasePlatform } from '../../../scripts/lib/etcd-release.mjs'
import { placeEtcd, withWorkshop } from '../../../scripts/lib/etcd-cache.mjs'
import type { Teardown } from '../../support/etcd.ts'

type Test = Teardown & { testdir: () => string }

/** A release as etcd's own are, with a script for a binary. */
function makeArchive (directory: string): Buffer {
  const name = 'etcd-v3.5.27-linux-amd64'
  mkdirSync(join(directory, name), { recursive: true })
  writeFileSync(join(directory, name, 'etcd'), '#!/bin/sh\necho "etcd Version: 3.5.27"\n', { mode: 0o755 })
  writeFileSync(join(directory, name, 'etcdctl'), '')
  spawnSync('tar', ['-czf', join(directory, 'a.tar.gz'), '-C', directory, name])
  return readFileSync(join(directory, 'a.tar.gz'))
}

async function serve (t: Test, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close(); server.closeAllConnections() })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function release (baseUrl: string, sum: string): { version: string, baseUrl: string, sha256: Record<string, string> } {
  return { version: '3.5.27', baseUrl, sha256: { 'linux-amd64': sum } }
}

t.test('an archive with the right sum is unpacked into the cache and nothing else is left there', async t => {
  const directory = t.testdir()
  const archive = makeArchive(directory)
  const asked: string[] = []
  const baseUrl = await serve(t, (request, response) => { asked.push(request.url ?? ''); response.end(archive) })
  const cache = join(directory, 'cache')
  const sum = createHash('sha256').update(archive).digest('hex')
  const fetched = await fetchRelease(cache, { release: release(baseUrl, sum), platform: 'linux-amd64' })
  t.same(fetched, { ok: true, version: '3.5.27', path: join(cache, '3.5.27', 'etcd') })
  t.same(asked, ['/v3.5.27/etcd-v3.5.27-linux-amd64.tar.gz'])
  t.same(readdirSync(cache), ['3.5.27'])
})

t.test('an archive with another sum is not used', async t => {
  const directory = t.testdir()
  const archive = makeArchive(directory)
  const baseUrl = await serve(t, (_, response) => { response.end(archive) })
  const cache = join(directory, 'cache')
  const fetched = await fetchRelease(cache, { release: release(baseUrl, '0'.repeat(64)), platform: 'linux-amd64' })
  t.match(fetched, { ok: false, reason: /not used/ })
  t.same(readdirSync(cache), [])
})

t.test('a server that never answers, stalls, or has no such file is given up', async t => {
  const waits = { answerTimeoutMs: 50, stallTimeoutMs: 50, platform: 'linux-amd64' }
  const silent = await serve(t, () => {})
  t.match(await fetchRelease(t.testdir(), { ...waits, release: release(silent, '0') }), { ok: false, reason: /no answer in time/ })
  const stalling = await serve(t, (_, response) => { response.write('half') })
  t.match(await fetchRelease(t.testdir(), { ...waits, release: release(stalling, '0') }), { ok: false, reason: /no answer in time/ })
  const empty = await serve(t, (_, response) => { response.writeHead(404).end() })
  t.match(await fetchRelease(t.testdir(), { ...waits, release: release(empty, '0') }), { ok: false, reason: /status 404/ })
})

t.test('a platform without a known sum is not tried', async t => {
  t.match(await fetchRelease(t.testdir(), { platform: 'darwin-arm64' }), { ok: false, reason: /darwin-arm64/ })
  t.equal(releasePlatform('linux', 'x64'), 'linux-amd64')
})

t.test('two that put the same version at once both succeed, and rubbish in its place is replaced', async t => {
  const cache = t.testdir()
  mkdirSync(join(cache, '3.5.27'))
  writeFileSync(join(cache, '3.5.27', 'rubbish'), '')
  const put = (): Promise<unknown> => withWorkshop(cache, async workshop => {
    const binary = join(workshop, 'new')
    writeFileSync(binary, '#!/bin/sh\necho "etcd Version: 3.5.27"\n')
    return await placeEtcd(cache, workshop, binary)
  })
  const expected = { ok: true, version: '3.5.27', path: join(cache, '3.5.27', 'etcd') }
  t.same(await put(), expected)
  t.same(await Promise.all([put(), put()]), [expected, expected])
  t.same(readdirSync(cache), ['3.5.27'])
})

t.test('a binary that does not run here is not placed', async t => {
  const cache = t.testdir()
  const placed = await withWorkshop(cache, async workshop => {
    writeFileSync(join(workshop, 'new'), '#!/bin/sh\nexit 1\n')
    return await placeEtcd(cache, workshop, join(workshop, 'new'))
  })
  t.match(placed, { ok: false, reason: /does not run/ })
  t.same(readdirSync(cache), [])
})
