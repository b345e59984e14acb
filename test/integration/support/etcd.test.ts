import t from 'tap'
import { existsSync } from 'node:fs'
import { bareEtcd } from '../../support/bare-etcd.ts'
import { startCluster, startMember } from '../../support/etcd.ts'
import { EtcdExited } from '../../support/etcd-process.ts'
import { freeUrl } from '../../support/ports.ts'

t.test('a cluster of three started at once serves and has three voters', async t => {
  const cluster = await startCluster(t, { size: 3 })
  const members = await bareEtcd(t, cluster.first.clientUrl).list(true)
  t.same(members.map(member => member.name).sort(), ['m1', 'm2', 'm3'])
  t.notOk(members.some(member => member.isLearner))
})

t.test('members can all advertise one client URL, as in a k0s cluster', async t => {
  const cluster = await startCluster(t, { size: 3, advertiseSameClientUrl: true })
  const members = await bareEtcd(t, cluster.first.clientUrl).list(true)
  for (const member of members) t.same(member.clientUrls, [cluster.first.clientUrl])
})

t.test('a learner is added, started with the cluster as it is, and promoted', async t => {
  const { first, initialCluster } = await startCluster(t)
  const etcd = bareEtcd(t, first.clientUrl)
  const peerUrl = await freeUrl()
  const added = await etcd.addLearner(peerUrl)
  t.equal(added.name, '')

  const joiner = await startMember(t, { name: 'm2', peerUrl, initialCluster: [...initialCluster, `m2=${peerUrl}`], state: 'existing' })
  await joiner.ready()
  t.match((await etcd.list()).find(member => member.id === added.id), { name: 'm2', isLearner: true })
})

t.test('a killed member has gone, and starts again with what it had', async t => {
  const { first } = await startCluster(t)
  await bareEtcd(t, first.clientUrl).client.put('boat').value('in the lock')
  const { pid } = first
  t.same(await first.kill9(), { code: null, signal: 'SIGKILL' })
  t.notOk(first.running)

  first.restart()
  await first.ready()
  t.not(first.pid, pid)
  t.equal(await bareEtcd(t, first.clientUrl).client.get('boat').string(), 'in the lock')
})

t.test('a frozen member answers nothing until it is thawed', async t => {
  const { first } = await startCluster(t)
  const { client } = bareEtcd(t, first.clientUrl)
  first.freeze()
  await t.rejects(client.get('boat').options({ deadline: Date.now() + 300 }).string())
  first.thaw()
  t.equal(await client.get('boat').string(), null)
})

t.test('a frozen member can be stopped', async t => {
  const { first } = await startCluster(t)
  first.freeze()
  await first.stop()
  t.notOk(first.running)
})

t.test('a member that cannot start says why', async t => {
  const { first } = await startCluster(t)
  const second = await startMember(t, { name: 'late', peerUrl: first.peerUrl })
  await t.rejects(second.ready(), EtcdExited)
  t.match(second.log(), /address already in use/)
})

t.test('nothing is left after the test that started it', async t => {
  let pid = 0
  let dataDir = ''
  await t.test('starts one', async t => {
    const { first } = await startCluster(t)
    pid = first.pid
    dataDir = first.dataDir
    t.ok(existsSync(dataDir))
  })
  t.throws(() => process.kill(pid, 0), { code: 'ESRCH' })
  t.notOk(existsSync(dataDir))
})
