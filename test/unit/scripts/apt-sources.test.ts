import t from 'tap'
import { distributionSources, parseDeb822, parseOneLine, parseOsRelease, renderForSuite } from '../../../scripts/lib/apt-sources.mjs'

const bookworm = { id: 'debian', codename: 'bookworm' }

const DEB822 = `# The distribution
Types: deb deb-src
# a comment between fields
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: https://vendor.example/packages
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/vendor.gpg
`

t.test('the distribution\'s own archive is found among others, and written for another suite', async t => {
  const [first] = distributionSources(parseDeb822(DEB822).reverse(), bookworm)
  t.ok(first)
  t.equal(renderForSuite(first!, 'trixie', ['main']), `\
Types: deb
URIs: http://mirror.example/debian
Suites: trixie
Components: main
Targets: Packages
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
`)
})

t.test('security, source-only, disabled and foreign sources are no archive', async t => {
  const sources = parseDeb822(DEB822)
  t.equal(distributionSources(sources, bookworm).length, 2, 'the vendor uses the code name too, and comes last')
  t.same(distributionSources(sources.slice(1, 2), bookworm), [])
  t.same(distributionSources(parseDeb822('Types: deb-src\nURIs: http://m.example/debian\nSuites: bookworm\nComponents: main\n'), bookworm), [])
  t.same(distributionSources(parseDeb822('Enabled: no\nTypes: deb\nURIs: http://m.example/debian\nSuites: bookworm\nComponents: main\n'), bookworm), [])
})

t.test('a key inside the source is kept line by line', async t => {
  const key = 'Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEY865UxYJKwYB\n -----END PGP PUBLIC KEY BLOCK-----\n'
  const [source] = parseDeb822(`Types: deb\nURIs: http://m.example/debian\nSuites: bookworm\nComponents: main\n${key}`)
  t.ok(renderForSuite(source!, 'sid', ['main']).endsWith(key))
})

t.test('one-line sources give the same, options and comments included', async t => {
  const [source, ...others] = distributionSources(parseOneLine(`
# deb http://old.example/debian bookworm main
deb cdrom:[Debian_12]/ bookworm main
deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian/ bookworm main contrib # ours
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/debian bookworm-updates main
`), bookworm)
  t.same(others, [])
  t.equal(renderForSuite(source!, 'trixie', ['main']), `\
Types: deb
URIs: http://mirror.example/debian/
Suites: trixie
Components: main
Targets: Packages
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
Architectures: amd64 arm64
`)
})

t.test('a machine that names its suite by an alias is understood', async t => {
  const sources = parseOneLine('deb http://mirror.example/debian unstable main')
  t.equal(distributionSources(sources, { id: 'debian', codename: 'forky' }).length, 1)
})

t.test('os-release is read with quotes and without', async t => {
  t.same(parseOsRelease('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n'), bookworm)
  t.same(parseOsRelease('NAME="Ubuntu"\nID="ubuntu"\nVERSION_CODENAME="noble"\n'), { id: 'ubuntu', codename: 'noble' })
  t.same(parseOsRelease(''), { id: '', codename: '' })
})
