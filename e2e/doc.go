// Package e2e runs the real binaries as users do, and tests them from outside. The tests of the embedded
// engine need only Go. With the build tag e2e further tests run, and with e2e and slow all tests of make
// test-all. They need SQS and DynamoDB at AWS_ENDPOINT_URL (scripts/with-emulators.sh starts both), the
// engine at E2E_DYNOXIDE_URL for most
// tables, a browser (with axe-core, and pictures in bin/screenshots), Schemathesis, and curl for the
// README's commands. If one of these programs is missing, its tests fail, and are never skipped. The
// package also has the tests of docker-compose.yml and of the messages' schema files, because its module
// has the libraries for these tests.
//
// It tests I1, I3, I4 and I5 over kill -9 of every process, and over changes of version: it builds the
// former release and runs the former release beside this tree. Before the first release, a second build
// of this tree replaces the former release. The package must never reach beyond loopback, except that git
// fetches the former release for a shallow clone. It stops every process that it starts, by process id,
// and keeps all data in directories of the test.
package e2e
