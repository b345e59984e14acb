import t from 'tap'
import { compareVersions, formatVersion, parseVersion, parseVersionOutput } from '../../../src/etcd/version.ts'
import type { EtcdVersion } from '../../../src/etcd/version.ts'

function version (text: string): EtcdVersion {
  const parsed = parseVersion(text)
  if (parsed === undefined) throw new Error(text)
  return parsed
}

t.test('a version is read and written back', async t => {
  for (const text of ['3.4.23', '3.5.16', '3.10.0', '3.6.0-rc.1']) t.equal(formatVersion(version(text)), text)
})

t.test('what is no version is not taken for one', async t => {
  for (const text of ['', '3.5', 'v3.5.16', '3.5.16.tmp-1', '.3.5.16', '3.5.x']) t.equal(parseVersion(text), undefined, text)
})

t.test('the version is read from what etcd prints', async t => {
  const output = 'etcd Version: 3.5.16\nGit SHA: Not provided\nGo Version: go1.24.0\nGo OS/Arch: linux/amd64\n'
  t.same(parseVersionOutput(output), version('3.5.16'))
  t.equal(parseVersionOutput('etcdctl version: 3.5.16\n'), undefined)
  t.equal(parseVersionOutput(''), undefined)
})

t.test('versions are ordered by number and a pre-release comes before its release', async t => {
  const sorted = ['3.4.23', '3.5.9', '3.5.16', '3.6.0-rc.2', '3.6.0-rc.10', '3.6.0', '3.10.1', '4.0.0']
  const shuffled = [...sorted].reverse().map(version).sort(compareVersions)
  t.same(shuffled.map(formatVersion), sorted)
  t.equal(compareVersions(version('3.5.16'), version('3.5.16')), 0)
})
