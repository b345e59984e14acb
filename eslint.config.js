import neostandard from 'neostandard'
import tseslint from 'typescript-eslint'

export default tseslint.config(
  { ignores: ['dist/', 'node_modules/', '.tap/', 'coverage/'] },
  ...neostandard({ ts: true }),
  {
    files: ['**/*.ts'],
    extends: [...tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Fastify plugins and routes are async by contract, whether they await or not.
      '@typescript-eslint/require-await': 'off',
      // `void promise` is how a promise that is handled elsewhere is marked.
      'no-void': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }]
    }
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      // tap's test functions return promises that tap itself awaits.
      '@typescript-eslint/no-floating-promises': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off'
    }
  }
)
