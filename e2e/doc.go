// Package e2e runs the real binaries as users do and tests them from outside. Tests of
// the embedded engine need nothing but Go. With the build tag e2e more tests run on the
// SQS and DynamoDB at AWS_ENDPOINT_URL (scripts/with-emulators.sh starts them), most of them
// with their table on the engine at E2E_DYNOXIDE_URL, in a
// browser (with axe-core, and pictures in bin/screenshots), with Schemathesis and by the
// README's curl; without one of these they fail, and
// they never skip. It also holds the tests of docker-compose.yml and of the messages'
// schema files, because its module has the libraries for them.
//
// It tests I1, I3, I4 and I5 over kill -9 of every process, and over changes of version:
// it builds the former release and runs it beside this tree; before the first release a second
// build of this tree takes its place. It must never
// reach beyond loopback, except that git gets that release for a shallow clone. It stops
// every process that it starts, by process id, and keeps all data in directories of the
// test.
package e2e
