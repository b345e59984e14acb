import fc from 'fast-check'
import t from 'tap'
import { canonicalPeerUrl, checkAgainstCluster, comparablePeerUrl, whyBadNode } from '../../../src/admission/peer-url.ts'

const hostName = fc.domain()
const port = fc.integer({ min: 1, max: 65_535 })
const scheme = fc.constantFrom('http', 'https')
const dialable = (address: string) => canonicalPeerUrl(`http://${address}:1`).ok
const host = fc.oneof(hostName, fc.ipV4().filter(dialable), fc.ipV6().map((ip) => `[${ip}]`).filter(dialable))
const mixedCase = (text: string, upper: readonly boolean[]) =>
  text.replace(/./g, (char, i: number) => upper[i % upper.length] === true ? char.toUpperCase() : char)

t.test('an accepted URL is the same as the platform reads it, its port spelled out', async (t) => {
  fc.assert(fc.property(scheme, host, port, (scheme, host, port) => {
    const result = canonicalPeerUrl(`${scheme}://${host}:${port}`)
    const platform = new URL(`${scheme}://${host}:${port}`)
    return result.ok && result.url === `${scheme}://${platform.hostname}:${port}`
  }))
  t.pass()
})

t.test('the canonical form does not depend on the case that was used', async (t) => {
  fc.assert(fc.property(scheme, host, port, fc.array(fc.boolean(), { minLength: 1 }), (scheme, host, port, upper) => {
    const text = `${scheme}://${host}:${port}`
    t.same(canonicalPeerUrl(mixedCase(text, upper)), canonicalPeerUrl(text))
  }))
})

t.test('the canonical form of a canonical form is itself', async (t) => {
  fc.assert(fc.property(fc.oneof(fc.webUrl({ withQueryParameters: true }), fc.string(), fc.tuple(scheme, host, port).map(([s, h, p]) => `${s}://${h}:${p}`)), (text) => {
    const once = canonicalPeerUrl(text)
    return !once.ok || comparablePeerUrl(once.url) === once.url
  }))
  t.pass()
})

t.test('whatever is accepted can stand in --initial-cluster', async (t) => {
  fc.assert(fc.property(fc.string(), host, port, (noise, host, port) => {
    const result = canonicalPeerUrl(`https://${host}${noise}:${port}`)
    return !result.ok || !/[,=\s]/.test(result.url)
  }))
  t.pass()
})

const CANONICAL = [
  ['https://host:2380', 'https://host:2380'],
  ['HTTPS://Controller-1.Example.COM:2380', 'https://controller-1.example.com:2380'],
  ['http://10.0.0.1:2380', 'http://10.0.0.1:2380'],
  ['https://[2001:DB8:0:0::0001]:2380', 'https://[2001:db8::1]:2380'],
  ['https://host:443', 'https://host:443'],
  ['http://host:080', 'http://host:80'],
  ['https://127.0.0.1:2380', 'https://127.0.0.1:2380'],
  ['https://etcd_0.etcd:2380', 'https://etcd_0.etcd:2380']
] as const
for (const [sent, canonical] of CANONICAL) {
  t.test(`${sent} is ${canonical}`, async (t) => {
    t.same(canonicalPeerUrl(sent), { ok: true, url: canonical })
  })
}

const REFUSED = [
  ['', /begin with https/],
  ['host:2380', /begin with https/],
  ['unix://sock:1', /begin with https/],
  [' https://host:2380', /begin with https/],
  ['https://host', /port/],
  ['https://host:', /port/],
  ['https://host:0', /port 0/],
  ['https://host:65536', /port 65536/],
  ['https://host:2380/', /path/],
  ['https://host:2380/members', /path/],
  ['https://host:2380?x=1', /query/],
  ['https://host:2380#x', /fragment/],
  ['https://user:secret@host:2380', /user/],
  ['https://2001:db8::1:2380', /brackets/],
  ['https://[2001:db8::1', /port|form/],
  ['https://[fe80::1%25eth0]:2380', /neither/],
  ['https://[host]:2380', /neither/],
  ['https://1.2.3:2380', /neither/],
  ['https://010.0.0.1:2380', /neither/],
  ['https://0x7f000001:2380', /neither/],
  ['https://-host:2380', /neither/],
  ['https://a,b:2380', /neither/],
  ['https://h\u00f6st:2380', /neither/],
  [`https://${'a.'.repeat(130)}b:2380`, /neither/],
  ['https://host:2380\n', /form|port/],
  ['https://0.0.0.0:2380', /dial/],
  ['https://[::]:2380', /dial/],
  ['https://[::ffff:0.0.0.0]:2380', /dial/],
  ['https://224.0.0.1:2380', /dial/],
  ['https://[ff02::1]:2380', /dial/],
  ['https://255.255.255.255:2380', /dial/]
] as const
for (const [sent, why] of REFUSED) {
  t.test(`${JSON.stringify(sent)} is refused`, async (t) => {
    const result = canonicalPeerUrl(sent)
    t.match(result, { ok: false, why })
  })
}

t.test('a URL in etcd that we would not accept is compared as it stands', async (t) => {
  t.equal(comparablePeerUrl('http://Host'), 'http://Host')
  t.equal(comparablePeerUrl('http://Host:80'), 'http://host:80')
})

const AGAINST = [
  ['https://b:2380', ['https://a:2380'], undefined],
  ['http://b:2380', ['https://a:2380'], /talk https/],
  ['https://b:2380', ['http://a:2380'], /talk http to/],
  ['http://b:2380', ['http://a:2380', 'https://c:2380'], undefined],
  ['http://127.0.0.1:2380', ['http://127.0.0.1:2370'], undefined],
  ['http://127.0.0.1:2380', ['http://localhost:2370'], undefined],
  ['http://10.0.0.1:2380', ['http://127.0.0.1:2370'], undefined],
  ['http://127.0.0.1:2380', ['http://10.0.0.1:2380'], /loopback/],
  ['http://127.8.9.1:2380', ['http://10.0.0.1:2380'], /loopback/],
  ['http://localhost:2380', ['http://a:2380'], /loopback/],
  ['http://node.localhost.:2380', ['http://a:2380'], /loopback/],
  ['http://[::1]:2380', ['http://a:2380'], /loopback/],
  ['http://[::ffff:7f00:1]:2380', ['http://a:2380'], /loopback/],
  ['http://127.0.0.1:2380', ['http://127.0.0.1:1', 'http://10.0.0.1:2380'], /10\.0\.0\.1 cannot reach/],
  ['https://b:2380', [], undefined],
  ['https://b:2380', ['unix://sock'], undefined]
] as const
for (const [url, cluster, why] of AGAINST) {
  t.test(`${url} ${why === undefined ? 'may join' : 'may not join'} ${cluster.join(', ') || 'a cluster without peer URLs'}`, async (t) => {
    const found = checkAgainstCluster(url, cluster)
    if (why === undefined) t.equal(found, undefined)
    else t.match(found, why)
  })
}

t.test('a node name is opaque, but must fit into --initial-cluster and a line of a log', async (t) => {
  const printable = (text: string) => encodeURI(text.replace(/\p{Cs}/u, '?'))
  for (const good of ['a', 'Controller 1', 'caf\u00e9', '\u{1f600}', 'x'.repeat(255)]) t.equal(whyBadNode(good), undefined, printable(good))
  for (const bad of ['', 'a=b', 'a,b', 'a\nb', 'a\u0000', 'a\u2028b', '\ud800', 'x'.repeat(256)]) t.type(whyBadNode(bad), 'string', printable(bad))
})
